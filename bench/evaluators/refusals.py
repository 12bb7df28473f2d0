"""Find out whether an answer is a refusal to answer, in the languages of the benchmarks.

Only the *beginning* of an answer counts, after an apology or an introduction. "Paris, though I don't know the street"
and "I'm not sure, but I think Paris" are answers. If the benchmark has a judge, the judge decides, not this module.

Example::

    is_refusal("I don't know.")                             # True
    is_refusal("对话中没有提到护照放在哪里。")                   # True
    is_refusal("(kein Eintrag)", ("kein Eintrag",))         # True: a phrase of the benchmark
    is_refusal("")                                          # False: an empty text is not a refusal
"""

from __future__ import annotations

import functools
import html
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bench.metrics.answers.text_normalization import OPTIONAL_MARKS, has_unspaced_script
from bench.patterns import pattern

_READ = 600
"""number of characters at the start of an answer that the rule reads"""
_SPACES = pattern(r"[\s\ufeff]+")
_MARKS = str.maketrans("", "", '*_`"“”„«»「」『』\u200c')
"""quotes, emphasis and the Persian zero-width non-joiner: these characters are removed before matching"""
_APOSTROPHES = str.maketrans(dict.fromkeys("’‘ʼ´", "'"))
_TAG = pattern(r"</?[a-zA-Z][^<>]{0,200}>")
_LABEL = pattern(
    r"(?:#+ *(?:final |short )?(?:answer|response)\s*\n|\s|[>#•–-]+(?=\s)|\(?\d{1,2}[.)](?=\s)"
    r"|(?:final |short )?(?:answer|response|antwort|réponse|respuesta|resposta|risposta|antwoord|odpowied[źz]|svar|vastaus|odpov[eě][dď]|válasz|r[aă]spuns|απάντηση|ответ|відповідь|cevap|trả lời|jawaban|תשובה|پاسخ|الإجابة|उत्तर|উত্তর|คำตอบ|答案|回答|答え|答|답변|답)\s*[:：])+"
)
"""labels, bullets and quote marks before an answer"""
_BREAK = "[,.:;!、。،؛ ]*"
_SENTENCE_END = pattern(r"[.!?。！？।؟۔]")

REVISION = 3
"""version of the refusal rule, increased when a change of the rule decides differently on any text"""
WORDS = {
    "TALK": (
        r"(?:con(?:ver[sz]|te[xs]t)|kon(?:ver[sz]|te(?:xt|kst))|dial[oóò]g|memor|mémoir|erinner|souvenir|recuerd|ricord"
        r"|inform|histor|te(?:xt|kst|sto)|gespr|unterhalt|samtal|samman|minne|rozm|rozhov|wspomn|spomien|vzpom|keskust"
        r"|muist|tieto|beszélg|párbesz|szöveg|emlék|discu[tțţ]|разгов|розмов|контекст|бесед|д[иі]алог|воспом|спогад"
        r"|[иі]нформ|текст|συνομιλ|συζ[ηή]τ|διάλογ|κείμεν|μνήμ|πλαίσι)\w*"
    ),
    "TEXT": (
        "(?:conversations?|context|memory|memories|dialogues?|text|texts|history|information|messages|chats?|transcripts?"
        "|logs?|notes|passages?|documents?|records|excerpts?|sessions?)"
    ),
    "INFO": (
        r"(?:information|info|details?|mentions?|records?|references?|indications?|data|memory|memories|recollection|knowledge)"
        r"(?=\W*$|[.,;!]| (?:of|on|about|regarding|concerning|for|that|to|in|from|available|whether|here|is|was|are|were|has"
        r"|have|can|could|exists?|yet|provided|given|found|stored|recorded|related)\b)"
    ),
    "ISNOT": r"(?: is| was| are| were| has| have|'s|'re)(?: not|n't| never)(?: been)?(?: \w+ly)?",
    "SAY": (
        r"(?:say|mention|contain|includ|provid|specif|hold|tell|stat|discuss|indicat|reveal|giv|record|describ|cover|have|refer"
        r"|address)\w*"
    ),
}
"""placeholders in the patterns: TALK matches words for conversation or memory in many languages, the rest English words
"""


class Language(NamedTuple):
    """Regular expressions that find refusals in one language."""

    sorry: str
    """apologies that can precede a refusal"""
    but: str
    """words such as "but": they connect an apology with a refusal, or an answer with a refusal of a detail"""
    source: str
    """phrases such as "based on the conversation" that can precede a refusal"""
    refusal: str


GUESSES: Mapping[str, str] = {
    "en": (
        "(?:i (?:would |do |'d )?|my (?:best )?)(?:think|believe|guess|suppose|assume|suspect|say)(?: (?:is|would be))?"
        "|if i had to guess|maybe|perhaps|probably|possibly|presumably|(?:most )?likely"
        "|(?:it|he|she|they|that)(?:'s| is| was| are| were| may| might| could| must)?"
        " (?:be|have been|probably|likely|possibly|perhaps)"
    ),
    "zh": "我?(?:觉得|覺得|认为|認為|猜测|猜測|猜|估计|估計)|(?:可能|应该|應該|大概|也许|也許)是",
    "de": "ich (?:glaube|denke|vermute|schätze|nehme an)|wahrscheinlich|vermutlich",
    "fr": "je (?:pense|crois|suppose|dirais)|probablement|sans doute",
    "es": "(?:yo )?(?:creo|pienso|supongo|diría)|probablemente|seguramente",
    "pt": "(?:eu )?(?:acho|acredito|penso|creio|suponho|diria)|provavelmente",
    "it": "(?:io )?(?:credo|penso|suppongo|direi)|probabilmente",
    "ru": "(?:я )?(?:думаю|полагаю|считаю|предполагаю)|кажется|наверное|вероятно|скорее всего",
    "nl": "ik (?:denk|geloof|vermoed)|waarschijnlijk|vermoedelijk",
    "pl": "myślę|sądzę|przypuszczam|chyba|prawdopodobnie",
    "sv": "jag (?:tror|gissar)|troligen|förmodligen",
    "da, nb": "jeg (?:tror|gætter|gjetter)|sandsynligvis|sannsynligvis",
}
"""language -> words that begin a guess, such as "I think"; a guess after "but" or a comma is an answer"""
_THAT = pattern(r"\A[ ,:]*(?:(?:that|dass|que|che|что|że|dat|att|at) )?")
_OFFER = pattern(
    r"(?:there )?(?:(?:you|we|i|one|someone)(?: (?:can|could|should|may|might|need|would|will|must|have to|want)|'(?:d|ll))\b"
    r"|(?:if|ask|check|try|look|see|consult|search|provide|let|more"
    r"|additional|further|(?:in |from |with )?(?:another|other|an? (?:different|earlier|later)))\b)"
)
"""phrases such as "perhaps you can tell me" after "but"; these phrases do not begin a guess"""

LANGUAGES: Mapping[str, Language] = {
    "en": Language(
        "i'm (?:so |very )?sorry|i am (?:so |very )?sorry|sorry|unfortunately|(?:i |my )?apolog(?:ies|i[sz]e)|i'm afraid|i am afraid|hmm+|well|honestly|as an ai[^,.]{0,40}",
        "but|though|although|however",
        r"(?:based on|according to|from|in|given) (?:[\w-]+ ){0,4}TALK[^,.]{0,40}|(?:regarding|as for|concerning) [^,.]{0,60}",
        r"i (?:(?:really|just|honestly|simply|actually) )?(?:do not|don't|dont|did not|didn't) (?:actually |really )?(?:know(?! how to)|remember|recall|have access"
        r"|(?:have|see|find|recall) (?:[\w-]+ ){0,4}?INFO|have (?:that|this)\W*$|have (?:an|the) answer)"
        r"|i(?:'m| am| was) (?:(?:really|just|honestly|quite) )?(?:not (?:sure|certain|aware)|unsure|uncertain|unaware|(?:not able|unable) to (?:\w+ )?(?:answer|tell|find|determine|say|recall|help|confirm|provide))"
        r"|i (?:cannot|can't|could not|couldn't|can not) (?:\w+ly )?(?:answer|tell|find|determine|say|recall|remember|help|confirm|infer|provide|locate|see any)\b"
        r"|(?:i have )?no (?:idea|clue)(?=\W*$|[.,;!]| (?:about|who|what|where|when|which|why|how|whether|if)\b)|not sure(?=\W*$|[.,;!]| (?:about|who|what|where|when|which|why|how|whether|if)\b)"
        r"|(?:unable to|cannot|can't|can not) (?:determine|answer|say|tell|infer|confirm)\b"
        r"|(?:(?:there (?:is|was|are|were)|there's|i have|i see|i find|i found|we have) )?(?:no|not enough|not any|insufficient) (?:[\w-]+ ){0,2}?INFO"
        r"|there (?:is|was|are|were)(?:n't| not) (?:any |enough |sufficient )?(?:[\w-]+ ){0,2}?INFO|(?:there is|there's|there was|i see|i find|i found) nothing (?:about|on|regarding)\b"
        r"|(?:there is |there's |there was )?nothing in (?:the|our|your|these|this|my) (?:[\w-]+ ){0,2}TEXT\b|not in (?:the|our|your|these|this|my) (?:[\w-]+ ){0,2}TEXT\b"
        r"|(?:it|this|that|(?:this|that|the|such|any|specific) (?:[\w-]+ ){0,2}?(?:information|info|answer|details?|data))ISNOT (?:mentioned|stated|specified|provided|known|disclosed|revealed|indicated|discussed"
        r"|(?:available|given|recorded|included|found|contained|present|in)(?=\W*$|[.,;!]| (?:[\w-]+ ){0,4}TEXT\b))\b"
        r"|(?:the|her|his|their|your|my|its|this|that|[\w-]+'s)(?: (?!(?:whose|which|who|and|but|though)\b)[\w'-]+){1,6}?ISNOT (?:mentioned|stated|specified|disclosed|revealed|indicated|known(?! (?:for|as|to)))\b"
        r"|(?:not|never) (?:\w+ly )?(?:mentioned|stated|specified|provided|disclosed|revealed|indicated|discussed|known(?! (?:for|as|to)))\b"
        r"|not (?:available|given|recorded|found)(?=\W*$| in (?:[\w-]+ ){0,3}TEXT\b)"
        r"|(?:(?:it|this|that|the|her|his|their|your)(?: [\w'-]+){0,6}? )?(?:cannot|can't|could not|couldn't|can not) be (?:\w+ly )?(?:determined|answered|inferred|established|confirmed|known)\b"
        r"|(?:it is |it's |it was )?(?:not possible|impossible) to (?:answer|tell|find|determine|say|know|infer|confirm)\b"
        r"|(?:it is |it's |it remains )?(?:unclear|not clear|uncertain)(?=\W*$| (?:whether|if|what|which|who|where|when|how|from|based)\b)|it isn't clear\b"
        r"|(?:the answer is:? |it is |it's )?(?:unknown|n/a|not applicable|unanswerable)\W*$"
        r"|(?:none of )?(?:the |our |your |my |these |this |any )?(?:[\w-]+ ){0,3}?TEXT (?:[\w-]+ ){0,3}?(?:(?:do|does|did|has|have)(?: not|n't)|never) (?:\w+ly )?SAY|none of (?:the|our|your|my|these) (?:[\w-]+ ){0,3}?TEXT (?:\w+ly )?SAY"
        r"|neither (?:[\w-]+ ){1,3}?(?:mention|specif|discuss)\w*|(?:it|he|she|they|[\w-]+) (?:does|do)(?: not|n't) (?:\w+ly )?(?:mention|specify|state|indicate|reveal|disclose)\b|it (?:does not|doesn't|didn't|did not) say\b"
        r"|(?:you|we|the user|the speakers?) (?:(?:did|have|has|do|does)(?: not|n't)|never) (?:\w+ly )?(?:mention|specif|sa[iy]|stat|told|tell|discuss|(?:talk|sp[eo]k)\w* (?:about|of)\b|disclos)",
    ),
    "zh": Language(
        "(?:非常|很|十分)?(?:抱歉|遗憾|遺憾)(?:的是)?|对不起|對不起|不好意思",
        "但是?|不过|不過",
        "(?:根据|根據|基于|基於|从|從)[^,。]{0,30}",
        r"(?:我们?|我們)?(?:也|真的|并|並|还|還|目前|暂时)?(?:不知道|不清楚|不确定|不確定|不记得|不記得|不了解)"
        r"|我?(?:无法|無法|不能)(?:回答|确定|確定|得知|判断|判斷|知道|提供|找到|确认|確認)"
        r"|(?:我)?(?:没有|沒有|缺乏|缺少)(?:足够|足夠|相关|相關|任何|这方面|這方面|有关|有關)*(?:的)?"
        r"(?:信息|资料|記憶|记忆|记录|記錄|数据|資訊|資料|内容|答案)"
        r"|(?:在)?(?:[这這该該本以所][上述段些次份]*)?(?:提供|给定|給定|给出|我们|之前|过去|现有|已知)?(?:的)?"
        r"(?:(?:对话|對話|谈话|談話|聊天|记忆|記憶|上下文|背景|文[本章中档件]|资料|資料|信息|資訊|内容|內容|材料|记录|記錄|历史|歷史|会话|會話)+)"
        r"(?:中|里|裡|内|內|当中|當中)?,?(?:都|并|並|也|似乎|好像|完全)?(?:没有?|沒有?|未|从未|從未|无|無)"
        r"|(?:都|并|並|也)?(?:没有?|沒有?|未|从未|從未)(?:被)?(?:明确|明確|直接|具体|具體)?(?:地)?"
        r"(?:提到|提及|提过|提過|说明|說明|说到|說到|指出|给出|給出|记载|記載|找到(?:任何|相关|相關|有关|關於|关于|信息))"
        r"|[^,。;]{0,30}(?:没有|沒有|未)(?:被)?(?:明确|明確)?(?:提到|提及|说明|說明|提供|记录|記錄)(?:过|過)?[。.!]*$"
        r"|(?:答案)?(?:是)?(?:未知|不详|不詳|不明|无从得知|無從得知|信息不足|資訊不足|无答案|無答案)[。.!]*$",
    ),
    "ja": Language(
        "(?:大変)?申し訳(?:ありません|ございません|ないです)が?|す[みい]ませんが?|ごめんなさい|残念ながら|恐れ入りますが",
        "(?:です|ます|だ)が|けど|しかし",
        "[^、。]{0,30}(?:には|では|によると|によれば|からは|限り)",
        r"[^、。,.]{0,60}?(?:[分判]か(?:りません|らない|りかねます)|わか(?:りません|らない|りかねます)|知りません|知らない"
        r"|存じません|覚えてい?(?:ません|ない)|不明(?:です|である)?|お?答え(?:ることが|ることは|ら)?(?:れません|れない|できません|できない)"
        r"|(?:回答|特定|確認|判断)(?:が|は)?でき(?:ません|ない)"
        r"|(?:言及|記載|記述|説明|記録|明記)(?:は|が)?(?:さ?れて|して)い?(?:ません|ない)"
        r"|(?:言及|記載|記述|記録|情報|記憶|データ|説明|手がかり|話)(?:が|は|も|に|には)?(?:一切|まったく|全く|特に)?"
        r"(?:ありません|ございません|ない|なし|見つかりません|見当たりません|含まれてい?(?:ません|ない)|不足しています|不十分です)"
        r"|(?:触れ|述べ|示さ|語ら)(?:ら)?れてい?(?:ません|ない)|(?:話し|言っ|述べ)てい(?:ません|ない))"
        r"(?:でした|です|のです|んです)?[よね]?(?:[。.!]|$)",
    ),
    "ko": Language(
        "(?:정말 )?죄송(?:합니다만?|하지만|해요)|미안(?:합니다|해요|하지만|해)|안타깝게도|유감스럽게도|아쉽게도",
        "(?:하)?지만|그러나",
        "[^,.]{0,30}(?:에서는|에는|에 따르면|으로는|바탕으로)",
        r"[^,.]{0,60}?(?:모르겠(?:습니다|어요|다|네요)|모릅니다|몰라요|모른다|알 수(?:가)? ?없(?:습니다|어요|다|음)|알지 못합니다"
        r"|기억(?:나지|이 나지|하지) (?:않습니다|않아요|못합니다)|확실하지 않(?:습니다|아요)"
        r"|(?:대답|답변|답|확인|찾을|판단)(?:할)? ?수(?:가)? ?없(?:습니다|어요|다|음)"
        r"|(?:언급|정보|기록|내용|기억|설명)(?:이|가|은|는|도)? ?(?:전혀 )?(?:없(?:습니다|어요|다|음|네요)|부족합니다)"
        r"|(?:언급|명시|기록|설명)(?:되지|하지|된 (?:바|적|것)[이은]?|되어 있지|돼 있지) ?(?:않\S+|없\S+)"
        r"|(?:알려지지|나와 있지|나오지|포함되어 있지) 않\S+)\W*(?:[.!]|$)",
    ),
    "de": Language(
        r"(?:es )?tut mir (?:sehr )?leid|entschuldig\w+|verzeihung|leider|sorry",
        "aber|jedoch|doch",
        r"(?:laut|gemäß|basierend auf) [^,.]{0,50}|nach (?:\w+ ){0,3}TALK[^,.]{0,40}",
        r"(?:leider )?(?:ich (?:weiß|weiss)(?: es| das| leider)* nicht|(?:das|es|dies) (?:weiß|weiss) ich(?: leider)? nicht"
        r"|(?:weiß|weiss) (?:ich )?nicht|keine ahnung|ich bin (?:mir )?(?:nicht|un) ?sicher|ich erinnere mich(?: \w+){0,3} nicht"
        r"|(?:ich )?(?:kann|konnte)(?: ich)?(?: \w+){0,5} (?:nicht|keine)(?: \w+){0,4} "
        r"(?:beantworten|sagen|finden|bestimmen|beurteilen|feststellen|antworten)"
        r"|(?:ich )?habe(?: ich)?(?: \w+){0,3} (?:keine|nicht genügend|nicht genug) (?:information|angabe|daten|erinnerung|kenntnis)"
        r"|(?:es|dazu|darüber|hierzu|dafür) (?:gibt|liegen|liegt)(?: \w+){0,4} (?:keine\w*|nicht genügend) "
        r"(?:information|angabe|hinweis|erwähnung|daten)"
        r"|(?:(?:das|es|dies|sie|er|(?:der|die|das|diese) \w+) )?(?:wird|wurde|ist|sind|werden|wurden)(?: \w+){0,6}? nicht "
        r"(?:erwähnt|genannt|angegeben|bekannt|besprochen|verfügbar|enthalten|beschrieben)"
        r"|keine (?:information|angabe|erwähnung|daten|hinweis)|nicht (?:erwähnt|genannt|angegeben|bekannt)"
        r"|(?:(?:die|der|das|den) )?(?:erinnerungen|kontext|gespräche?|unterhaltung(?:en)?|informationen|konversation|bereitgestellten? \w+)"
        r" (?:enth\w+|erwähn\w+|nenn\w+|sag\w+|g[ie]b\w+)(?: \w+){0,4} (?:nicht|keine)"
        r"|(?:in (?:den|der|dem|diesem|diesen)|im) (?:\w+ )?(?:gespräch\w*|unterhaltung\w*|erinnerungen|konversation\w*|kontext|text)"
        r" (?:wird|wurde|werden|gibt|ist|sind|steht|finde\w*)(?: \w+){0,6} (?:nicht|keine)|(?:das |dies |es )?geht (?:daraus|aus [^,.]{0,40}) nicht (?:eindeutig )?hervor|(?:unbekannt|unklar)\W*$)",
    ),
    "fr": Language(
        "(?:je suis )?(?:vraiment )?désolée?|(?:toutes )?mes excuses|malheureusement|pardon",
        "mais",
        r"(?:d'après|selon|sur la base d\w*) [^,.]{0,50}|dans (?:\w+ ){0,3}TALK[^,.]{0,40}",
        r"(?:je (?:ne |n'|n')(?:le |l'|m'en |me |en )?(?:sais pas|connais pas|souviens pas|rappelle pas|me souviens pas"
        r"|suis pas (?:sûre?|certaine?|en mesure)|dispose (?:pas|d'aucun)|trouve (?:pas|aucun)"
        r"|peux (?:pas )?(?:\w+ )?(?:répondre|dire|déterminer|savoir)|ai (?:pas|aucune?)(?: assez)? ?(?:d'|de |l')?(?:cette )?"
        r"(?:information|souvenir|donnée|mention|réponse|idée))"
        r"|je l'ignore|j'ignore|il n'(?:y a|existe) (?:pas|aucune?) ?(?:assez )?(?:d'|de )?(?:information|mention|donnée|détail|indication)"
        r"|(?:je n'ai )?aucune (?:idée\W*$|information|mention|donnée|indication)|je n'en (?:sais rien|ai aucune)|on ne (?:sait|peut) pas|impossible (?:de|à) (?:répondre|savoir|dire|déterminer)"
        r"|(?:ce|cela|ceci|c'|il|elle|l'information|cette information|la réponse)(?: \w+){0,2}? ?(?:n'est|n'a|ne sont|n'ont) pas(?: été)? "
        r"(?:mentionn|précis|indiqu|connu|spécifi|fourni|donn|disponible)|(?:non|pas) (?:mentionn|précis|indiqu|spécifi|connu)"
        r"|(?:la |les |le |l'|cette |ces )?(?:conversations?|contexte|mémoires?|souvenirs|informations|texte|dialogue)(?: \w+){0,3} "
        r"(?:ne |n')(?:\w+ )?(?:mentionn|précis|indiqu|conti|dit|disent|fourni|donn|spécifi|parle|permet)\w* (?:pas|aucune?|rien)"
        r"|(?:inconnue?|indéterminée?)\W*$)",
    ),
    "es": Language(
        r"lo siento|perd[oó]n\w*|disculp\w+|lamentablemente|desafortunadamente|lo lamento|por desgracia",
        "pero|aunque",
        r"(?:según|de acuerdo con) [^,.]{0,50}|en (?:\w+ ){0,3}TALK[^,.]{0,40}",
        r"(?:(?:yo )?no (?:lo )?(?:sé\b|s[eé]\W*$|lo sé|conozco la respuesta|(?:me )?(?:recuerdo|acuerdo)|estoy segur"
        r"|puedo (?:\w+ )?(?:responder|saber|determinar|decir|contestar|encontrar|recordar)"
        r"|(?:dispongo|tengo|hay)(?: \w+){0,2} (?:información|informacion|datos|recuerdo|constancia|mención|mencion|detalles|registro)"
        r"|se (?:menciona|especifica|indica|dice|proporciona|sabe|conoce|ha mencionado|mencion[oó]|encuentra (?:información|mención))"
        r"|(?:está|fue|ha sido|es) (?:mencionad|disponible|especificad|claro\W*$|conocid)|mencionad|especificad|consta)"
        r"|(?:la |el |las |los |esta )?(?:conversaci[oó]n(?:es)?|contexto|memorias?|recuerdos|información|texto|diálogo)(?: \w+){0,3} no "
        r"(?:\w+ )?(?:menciona|indica|contiene|dice|especifica|proporciona|incluye|da|habla)\w*"
        r"|(?:eso|esto|la respuesta|esa información|la información)(?: \w+){0,2}? no (?:se|está|fue|es)(?: \w+){0,2} "
        r"?(?:menciona|especifica|conocid|disponible|indica|proporciona)|(?:no tengo )?(?:ni|la menor|ninguna) idea\W*$|no tengo idea|se desconoce|desconocid[oa]\W*$|ningun[ao] (?:mención|información)"
        r"|en (?:la|las|el) (?:conversaci\w+|contexto|memorias?|texto) no (?:se|hay))",
    ),
    "pt": Language(
        r"desculp\w+|sinto muito|lamento|infelizmente|peço desculpas?",
        "mas|porém",
        r"(?:de acordo com|segundo|com base) [^,.]{0,50}|n[ao]s? (?:\w+ ){0,3}TALK[^,.]{0,40}",
        r"(?:(?:eu )?não (?:o )?(?:sei\b|conheço a resposta|me (?:lembro|recordo)|lembro|tenho certeza"
        r"|tenho (?:\w+ ){0,2}informaç|(?:consigo|posso) (?:\w+ )?(?:responder|dizer|determinar|encontrar|saber|afirmar)"
        r"|(?:há|existe|existem|tem) (?:\w+ )?(?:informaç|menç|dados|registro|detalhes)"
        r"|(?:(?:é|foi|está|foram|são|fica) (?:\w+ )?)?(?:mencionad|informad|especificad|disponív|conhecid|indicad|clar[oa]\W*$)"
        r"|se (?:menciona|sabe)|consta)"
        r"|(?:a |o |as |os |essa )?(?:conversas?|contexto|memórias?|informaç(?:ão|ões)|texto|diálogo)(?: \w+){0,3} não "
        r"(?:\w+ )?(?:mencion|indic|cont[eéê]m|diz|especific|fornec|inclu|inform|é|foi|está)\w*"
        r"|(?:isso|isto|a resposta|ele|ela) não (?:é|foi|está) (?:mencionad|informad|especificad|disponív|conhecid)"
        r"|desconhecid[oa]\W*$|nenhuma (?:menção|informação)|(?:eu )?não faço (?:a menor )?ideia|sem ideia\W*$|na conversa não)",
    ),
    "it": Language(
        r"mi (?:di)?spiace|spiacente|scus\w+|purtroppo",
        "ma|però",
        r"(?:secondo|in base) [^,.]{0,50}|ne(?:i|l|gli|lle?|lla) (?:\w+ ){0,3}TALK[^,.]{0,40}",
        r"(?:(?:io )?non (?:lo )?(?:so\b|(?:mi )?ricordo|sono (?:sicur|cert|in grado)|posso (?:\w+ )?(?:rispondere|dire|determinare|saper)"
        r"|(?:ho|ci sono|c'è)(?: \w+){0,2} (?:informazion|menzion|dati|riferiment|ricord)"
        r"|(?:(?:è|viene|sono|vengono)(?: stat[oaie])? )?(?:menzionat|specificat|indicat|not[oa]\b|disponibil|chiar[oa]\W*$|detto)"
        r"|si (?:sa|menziona|parla)\b)"
        r"|(?:la |le |il |i |l'|gli )?(?:conversazion[ei]|contesto|memori[ae]|ricordi|informazioni|testo|dialogo)(?: \w+){0,3} non "
        r"(?:\w+ )?(?:menzion|indic|conten|contien|dic|specific|forni|includ)\w*"
        r"|(?:questo|ciò|l'informazione|questa informazione|la risposta) non (?:è|viene)(?: \w+)? (?:menzionat|specificat|disponibil|not[oa])"
        r"|(?:sconosciut[oa]|ignot[oa])\W*$|nessuna (?:menzione|informazione|idea\W*$)|non ne ho (?:la minima |alcuna )?idea)",
    ),
    "ru": Language(
        r"извини\w*|прости\w*|к сожалению|прошу прощения|сожалею",
        "но|однако|хотя",
        r"(?:согласно|исходя из|судя по) [^,.]{0,50}|(?:в|по) (?:\w+ ){0,3}TALK[^,.]{0,40}",
        r"(?:(?:я )?(?:этого |об этом |точно )?не (?:знаю|помню|уверен|наш[её]л|располагаю|имею (?:\w+ )?информации"
        r"|могу (?:\w+ ){0,3}(?:ответить|сказать|определить|найти|вспомнить))"
        r"|(?:у меня )?(?:нет|недостаточно) (?:\w+ ){0,2}?(?:информации|данных|сведений|упоминани\w+)"
        r"|(?:(?:об этом|это|этого|в \w+(?: \w+){0,2}) )?(?:\w+ )?не (?:упомин\w+|упомян\w+|указан\w*|сказано|говорится|сообща\w+|известно)"
        r"|(?:ответ )?неизвест\w+\W*$|неизвестно|(?:я )?(?:без понятия|понятия не имею)"
        r"|(?:разговор\w*|контекст\w*|воспоминани\w*|бесед\w*|диалог\w*)(?: \w+){0,3} не (?:упомин|содерж|указ|говор)\w*"
        r"|информаци[ия] (?:\w+ ){0,4}(?:отсутству|не (?:указан|найден|упомян)|нет)"
        r"|в (?:\w+ ){1,3}(?:нет|отсутству\w+) (?:\w+ )?(?:информаци|упоминани|данных|сведени))",
    ),
    "ar": Language(
        "آسف|أنا آسف|عذرا|أعتذر|اعتذر|للأسف|معذرة",
        "و?لكن",
        "(?:وفقا|بناء على|استنادا|حسب) [^,.،]{0,50}",
        r"(?:(?:أنا )?(?:لا|لم|لست) (?:أعرف|اعرف|أعلم|اعلم|أدري|ادري|أتذكر|اتذكر|متأكد\w*|أستطيع|استطيع|أملك|امتلك|أجد)"
        r"|لا (?:يمكن|يمكنني) (?:\w+ )?(?:الإجابة|تحديد|معرفة|القول)"
        r"|(?:لا|ليس|ليست|لم) ?(?:توجد|يوجد|هناك|تتوفر|يتوفر|لدي|لدى|ترد|يرد)(?: \w+){0,2} (?:معلوم|ذكر|إشارة|بيانات)"
        r"|لم (?:يتم )?(?:ذكر|يذكر|تذكر|يذكر|يرد|يحدد|تحدد)|(?:ما عندي|ليس لدي) (?:\w+ )?(?:معلوم|فكرة|علم)|(?:هذا |الإجابة )?غير (?:معروف|مذكور|محدد|متوفر|معلوم)"
        r"|(?:في )?(?:هذه )?(?:المحادث\w+|السياق|الذاكرة|الذكريات|النص|الحوار|المعلومات)(?: \w+){0,3} (?:لا|لم) \w+"
        r"|(?:لا|لم) (?:تذكر|يذكر|تحتوي|يحتوي|تشير|يشير|توضح|تتضمن) (?:\w+ )?(?:المحادث\w+|السياق|الذاكرة|الذكريات|النص|الحوار|المعلومات))",
    ),
    "hi": Language(
        r"(?:मुझे )?(?:क्षमा करें|माफ़? ?कर\S+|खेद है(?: कि)?|अफ़?सोस है(?: कि)?)|दुर्भाग्य से",
        "लेकिन|परंतु|परन्तु|मगर|किंतु",
        r"(?:\S+ ){0,5}(?:के अनुसार|के आधार पर)",
        r"(?:(?:मुझे|हमें) (?:\S+ ){0,6}?(?:नहीं (?:पता|मालूम|याद)|(?:पता|मालूम|याद|जानकारी) नहीं)|(?:पता|मालूम|ज्ञात|स्पष्ट) नहीं"
        r"|मैं (?:\S+ ){0,6}?नहीं (?:जानता|जानती|बता सक|कह सक|दे सक)|अज्ञात"
        r"|(?:[^\s,।.]+ ){0,12}?(?:जानकारी|उल्लेख|ज़िक्र|जिक्र|सूचना|विवरण)(?: \S+){0,3} नहीं)",
    ),
    "th": Language(
        "(?:ต้อง)?ขอโทษ(?:ด้วย|ครับ|ค่ะ|นะ)*|(?:ต้อง)?ขออภัย(?:ด้วย|ครับ|ค่ะ)*|เสียใจ(?:ด้วย)?|น่าเสียดาย(?:ที่)?",
        "แต่",
        "(?:จาก|ตาม)[^ ]{0,40}",
        r"(?:ฉัน|ผม|ดิฉัน|เรา|หนู)?(?:ก็|ยัง)?(?:ไม่(?:ทราบ|รู้|แน่ใจ|สามารถ(?:ตอบ|ระบุ|บอก|หา|ให้คำตอบ)|มีข้อมูล|พบข้อมูล|ปรากฏ"
        r"|มีการ(?:กล่าว|ระบุ|พูด|เอ่ย)ถึง|มีการระบุ|ได้(?:ถูก)?(?:กล่าว|ระบุ|พูดถึง|เอ่ย|บอก))|จำไม่ได้)"
        r"|(?:ใน)?(?:บท|การ)?(?:สนทนา|ข้อมูล|บริบท|ความทรงจำ|ข้อความ)[^.]{0,40}?ไม่(?:ได้|มี|ปรากฏ|พบ)",
    ),
    "tr": Language(
        "(?:çok )?üzgünüm|maalesef|özür dilerim|ne yazık ki",
        "ama|fakat|ancak",
        r"(?:\w+ ){0,3}(?:göre|dayanarak)",
        r"(?:(?:ben )?(?:bunu |bu konuda )?(?:bilm?iyorum(?<=bilmiyorum)|hatırlamıyorum|emin değilim)"
        r"|[^.,]{0,60}?(?:bilgi(?:m|miz|ye sahip)? (?:yok|bulunmuyor|mevcut değil|bulunmamaktadır|değilim)|belirtilm[ei]\w+|bahsedilm[ei]\w+"
        r"|söz edilm[ei]\w+|bilinmiyor|cevap veremem|cevaplayamam|yanıtlayamam))",
    ),
    "nl": Language(
        "(?:het )?spijt me|sorry|helaas",
        "maar|echter",
        r"(?:volgens|op basis van) [^,.]{0,50}|in (?:\w+ ){0,3}TALK[^,.]{0,40}",
        r"(?:(?:dat |dit )?(?:weet ik|ik weet)(?: het| dat| helaas)* niet|geen idee"
        r"|ik (?:kan|kon)(?: \w+){0,4} niet (?:\w+ )?(?:beantwoorden|zeggen|vinden|bepalen)"
        r"|ik heb(?: \w+){0,3} (?:geen|onvoldoende) (?:informatie|gegevens)|er is(?: \w+)? geen (?:\w+ )?(?:informatie|vermelding)"
        r"|(?:dat|dit|het|er|de \w+) (?:wordt|is|werd|staat)(?: \w+){0,4} niet (?:vermeld|genoemd|bekend|gegeven)"
        r"|niet (?:vermeld|genoemd|bekend)|onbekend\W*$)",
    ),
    "pl": Language(
        "przepraszam|niestety|przykro mi",
        "ale|jednak",
        r"(?:według|na podstawie|zgodnie z) [^,.]{0,50}|w (?:\w+ ){0,3}TALK[^,.]{0,40}",
        r"(?:(?:ja )?nie (?:wiem|pamiętam|jestem (?:pew|w stanie)|mogę (?:\w+ ){0,3}(?:odpowiedzieć|powiedzieć|określić)"
        r"|mam(?: \w+){0,2} informacji|ma(?: \w+){0,2} (?:informacji|wzmianki)|wspomniano|podano|wiadomo)"
        r"|(?:rozmow\w+|kontekst\w*)(?: \w+){0,3} nie (?:wspomin|zawier|poda)\w*|brak (?:informacji|danych|wzmianki)|nie mam pojęcia|nieznan\w+\W*$)",
    ),
    "vi": Language(
        "(?:tôi )?(?:rất )?(?:xin lỗi|tiếc)(?: là)?",
        "nhưng",
        "(?:dựa trên|theo) [^,.]{0,50}",
        r"(?:(?:tôi |mình |em )?(?:không (?:biết|rõ|nhớ|chắc|thể (?:trả lời|xác định|biết|tìm)|có (?:\w+ )?(?:thông tin|dữ liệu|đề cập)"
        r"|được (?:đề cập|nhắc|nêu)|đề cập|tìm thấy thông tin)|chưa (?:biết|rõ))"
        r"|(?:trong )?(?:cuộc (?:trò chuyện|hội thoại)|ngữ cảnh|thông tin|đoạn)[^.,]{0,40}? không (?:đề cập|nhắc|nói|có|chứa|được))",
    ),
    "id": Language(
        "(?:mohon )?maaf|sayangnya",
        "tetapi|tapi|namun",
        "(?:berdasarkan|menurut) [^,.]{0,50}",
        r"(?:(?:saya )?tidak (?:tahu|ingat|yakin|(?:dapat|bisa) (?:menjawab|menemukan|menentukan)|memiliki (?:\w+ )?informasi"
        r"|ada (?:informasi|penyebutan)|disebutkan|diketahui)|(?:dalam )?(?:percakapan|konteks|informasi)[^.,]{0,40}? tidak "
        r"(?:disebut|menyebut|berisi|memuat|tersedia|ada)\w*)",
    ),
    "sv": Language(
        r"(?:jag (?:är )?)?(?:mycket )?(?:ledsen|beklagar|ber om ursäkt)|ursäkta|förlåt|tyvärr",
        "men",
        r"(?:enligt|baserat på|utifrån|i|från) (?:\w+ ){0,3}TALK[^,.]{0,40}",
        r"(?:jag )?(?:vet|minns)(?: jag| tyvärr| det| faktiskt)* (?:inte|ej)\b(?! bara)|det (?:vet|minns) jag (?:tyvärr )?inte"
        r"|jag kommer (?:tyvärr )?inte ihåg|(?:jag har )?ingen aning|jag är (?:inte säker|osäker)"
        r"|(?:jag )?kan (?:jag )?(?:tyvärr )?(?:inte|ej) (?:\w+ ){0,3}?(?:svara|säga|hitta|avgöra|veta|fastställa)"
        r"|(?:jag har |det finns )?(?:tyvärr )?(?:ingen|inte (?:någon|tillräckligt med)|otillräcklig) (?:\w+ )?(?:information|omnämnande)\b"
        r"|(?:jag har|det finns) (?:tyvärr )?inga (?:\w+ )?(?:uppgifter om|detaljer|minnen)"
        r"|(?:\w+ ){0,2}(?:nämns|nämndes|omnämns|framgår|anges|specificeras)(?: det)? (?:inte|ej|aldrig|ingenstans)\b"
        r"|(?:det|detta|svaret) (?:har|är) (?:inte|ej) (?:nämn|angiv|angett|känt|specific)"
        r"|(?:\w+ )?TALK (?:nämner|innehåller|anger|säger|ger)(?: \w+)? (?:inte|ingen|inget|inga|ingenting)\b"
        r"|i (?:\w+ )?TALK (?:finns|står|sägs|nämns|framgår)(?: \w+)? (?:inte|ingen|inget|inga|ingenting)\b|(?:svaret är )?(?:okänt|oklart)\W*$",
    ),
    "da, nb": Language(
        r"(?:det )?(?:jeg )?(?:beklager|er (?:meget )?ked af det)|undskyld|unnskyld|desværre|dessverre|det er (?:jeg )?lei for",
        "men",
        r"(?:ifølge|baseret på|basert på|ud fra|ut fra|i|fra) (?:\w+ ){0,3}TALK[^,.]{0,40}",
        r"(?:det )?(?:jeg )?(?:ved|vet|husker)(?: jeg)?(?: det| desværre| dessverre)* ikke\b(?! bare)"
        r"|(?:jeg har |det har jeg )?(?:ingen anelse|ingen idé|ikke peiling)|(?:det )?er jeg (?:ikke sikker|usikker)|jeg er (?:ikke sikker|usikker)"
        r"|(?:det |jeg )?kan (?:jeg )?(?:desværre |dessverre )?ikke (?:\w+ ){0,3}?(?:svare|besvare|sige|si|finde|finne|afgøre|avgjøre|fastslå)\b"
        r"|(?:jeg har |der er |det er |det finnes |der findes )?(?:desværre |dessverre )?(?:ingen|ikke nok|ikke tilstr[æe]kkelig\w*) (?:\w+ )?(?:information|informasjon|oplysninger|opplysninger)\b"
        r"|(?:\w+ ){0,2}(?:nævnes|nevnes|fremgår|fremkommer|omtales)(?: det)? (?:ikke|aldrig|aldri|ingen steder)\b"
        r"|(?:\w+ ){0,2}(?:er|bliver|blir|blev|ble)(?: det)? ikke (?:nævnt|nevnt|omtalt|angivet|angitt|oplyst|opplyst|specificeret|spesifisert)\b"
        r"|det er ikke (?:kendt|kjent)\b|(?:\w+ )?TALK (?:nævner|nevner|indeholder|inneholder|siger|sier|oplyser|opplyser)(?: \w+)? (?:ikke|ingen|intet|ingenting)\b"
        r"|i (?:\w+ )?TALK (?:er|står|nævnes|nevnes|finnes|findes|fremgår)(?: \w+){0,2}? (?:ikke|ingen|intet|ingenting)\b|(?:svaret er )?(?:ukendt|ukjent|uklart)\W*$",
    ),
    "fi": Language(
        "(?:olen )?pahoillani|anteeksi|valitettavasti|ikävä kyllä",
        "mutta",
        r"(?:\w+ ){0,2}TALK (?:perusteella|mukaan|pohjalta)",
        r"(?:minä )?en (?:valitettavasti )?(?:tiedä|muista|osaa (?:sanoa|vastata)|ole varma|voi (?:\w+ ){0,3}?(?:vastata|sanoa|tietää|määrittää)|löydä (?:\w+ )?(?:tietoa|mainintaa))\b"
        r"|minulla ei ole (?:\w+ ){0,3}?(?:tietoa|tietoja|muistikuvaa)|(?:\w+ )?ei (?:ole )?(?:\w+ )?(?:tietoa|mainintaa|mainittu|kerrottu|tiedossa)\b|tietoa ei (?:ole|löydy)"
        r"|(?:\w+ ){0,2}ei (?:mainita|kerrota|käy ilmi|ilmene)\b|(?:\w+ )?TALK ei (?:\w+ )?(?:mainita|mainitse|kerrota|kerro|sisällä|puhuta|käy|ole)\b|(?:tuntematon|epäselvää)\W*$",
    ),
    "cs, sk": Language(
        r"(?:je mi )?(?:to )?(?:líto|ľúto)|omlouvám se|promiňte|bohužel|prepáčte|ospravedlňujem sa|bohužiaľ|žiaľ",
        "ale|však|avšak",
        r"(?:podle|na základě|podľa|na základe) [^,.]{0,50}|(?:v|ve|vo|z) (?:\w+ ){0,2}TALK[^,.]{0,40}",
        r"(?:to |já |ja |bohužel |bohužiaľ )*(?:nevím|neviem|netuším|(?:si )?nepamat[uú]j[iu](?: si)?|(?:si )?nepamätám(?: si)?|nejsem si jist|nie som si ist"
        r"|(?:nemohu|nemůžu|nemôžem|nedokážu|nedokážem) (?:\w+ ){0,3}?(?:odpov|určit|určiť|ří[cč]|poved|najít|nájsť))"
        r"|(?:nemám|nejsou|není|nie sú|nie je|neexistuj\w+|ch[yý]b[aíý]\w*|žádn\w+|žiadn\w+)(?: \w+){0,3}? (?:informac|informáci|zmínk|zmienk)\w*"
        r"|(?:to |toto |\w+ )?(?:nen[ií]|nie je|neb[yo]l\w*|nebyl\w*) (?:\w+ )?(?:zmíněn|uveden|zmienen|spomenut|známo|známe|specifikov|špecifikov)\w*"
        r"|(?:to |toto |\w+ )?(?:se|sa) (?:\w+ ){0,3}?(?:nezmiňuj|neuvád|nespomín)\w*|(?:nezmiňuj|neuvád|nespomín)\w* (?:se|sa)\b"
        r"|(?:\w+ )?TALK (?:\w+ ){0,2}(?:neobsahuj|nezmiňuj|neuvád|nespomín|nehovoř)\w*"
        r"|(?:v|ve|vo) (?:\w+ )?TALK (?:\w+ ){0,3}?(?:není|nie je|nejsou|nie sú|nezmiňuj\w*|neuvád\w*|nespomín\w*)\b|(?:odpověď je |odpoveď je )?(?:neznám[ýáée]|neznámo|nejasné)\W*$",
    ),
    "hu": Language(
        "sajnálom|elnézést|bocsánat|sajnos|bocsi",
        "de|azonban|viszont",
        r"(?:a|az) (?:\w+ ){0,3}(?:alapján|szerint)",
        r"(?:ezt |azt |én |sajnos )*(?:nem (?:tudom|emlékszem|vagyok biztos|tudok (?:\w+ ){0,3}?(?:válasz|információ)\w*|említett\w*|említi\w*)|fogalmam sincs)"
        r"|(?:erről |arról |ezzel kapcsolatban )?(?:nincs|nincsenek|nem áll rendelkezés\w*|nem található)(?: \w+){0,4}? (?:információ|adat|említés|utalás)\w*"
        r"|nem (?:szerepel|hangzott el|derül ki|esik szó)(?: \w+){0,4}? TALK|(?:a |az |ez |erről )*(?:\w+ )?TALK (?:\w+ ){0,3}?(?:nem (?:említ|szerepel|tartalmaz|derül|esik|hangz)\w*|nincs)"
        r"|(?:ismeretlen|nem ismert)\W*$",
    ),
    "ro": Language(
        r"(?:îmi|imi) pare (?:foarte )?rău|scuze|scuza[tțţ]i\w*|din p[aă]cate|regret",
        "dar|însă|insa",
        r"(?:conform|potrivit|pe baza) [^,.]{0,50}|(?:în|in|din) (?:\w+ ){0,2}TALK[^,.]{0,40}",
        r"(?:eu )?nu (?:[sșş]tiu(?! s[aă])|(?:îmi |imi |mi )?amintesc|(?:[tțţ]in|in) minte|sunt (?:sigur|în măsură)|pot (?:\w+ ){0,3}?(?:răspunde|raspunde|spune|determina|găsi|stabili)"
        r"|(?:am|există|exista|sunt|găsesc) (?:\w+ ){0,3}?(?:informa[tțţ]i|men[tțţ]iun)\w*|se (?:men[tțţ]ion|specific|precizeaz|[sșş]tie|spune)\w*"
        r"|(?:este|e|a fost|sunt) (?:\w+ )?(?:men[tțţ]ionat|specificat|precizat)\w*)|(?:\w+ )?TALK (?:\w+ )?nu (?:men[tțţ]ion|con[tțţ]in|precizeaz|specific|ofer|spun|includ)\w*"
        r"|(?:în|in|din) (?:\w+ )?TALK (?:\w+ )?nu (?:se|există|exista|este|sunt|apar)\b|(?:nicio|nici o) (?:informa[tțţ]i|men[tțţ]iun)\w*|necunoscută?\W*$",
    ),
    "el": Language(
        r"λυπάμαι|συγγνώμη|ζητώ συγγνώμη|με συγχωρε\w+|δυστυχώς",
        "αλλά|όμως|ωστόσο",
        r"(?:σύμφωνα με|με βάση) [^,.]{0,50}|στ\w+ (?:\w+ ){0,2}TALK[^,.]{0,40}",
        r"(?:εγώ |αυτό |το )?δεν? (?:το )?(?:γνωρίζω|ξέρω(?! να)|θυμάμαι|είμαι (?:σίγουρ|βέβαι)\w*|μπορώ να (?:\w+ )?(?:απαντήσω|πω|βρω|προσδιορίσω|καθορίσω|γνωρίζω)"
        r"|(?:έχω|υπάρχ\w+) (?:\w+ ){0,3}?(?:πληροφορ|αναφορ)\w*|αναφέρ(?:εται|ονται|θηκε)|διευκρινίζεται|προσδιορίζεται|είναι γνωστό)\b"
        r"|(?:η |το |οι )?TALK (?:\w+ )?δεν (?:αναφέρ|περιέχ|περιλαμβάν|λέ)\w*|στ\w+ (?:\w+ )?TALK (?:\w+ )?δεν\b|(?:η απάντηση είναι )?άγνωστ[οηή]\W*$",
    ),
    "uk": Language(
        r"вибач\w*|перепрошую|на жаль",
        "але|однак|проте",
        r"(?:згідно з|судячи з|на основі) [^,.]{0,50}|(?:у|в|із|з) (?:\w+ ){0,2}TALK[^,.]{0,40}",
        r"(?:я )?(?:цього |про це |точно )*не (?:знаю|пам'ятаю|впевнен\w*|можу (?:\w+ ){0,3}?(?:відповісти|сказати|визначити|знайти))|(?:у мене )?(?:немає|нема|недостатньо) (?:\w+ ){0,2}?(?:інформації|даних|згад\w+|відомостей)"
        r"|(?:про це |це |\w+ )?не (?:згад\w+|вказан\w*|зазначен\w*|відомо|йдеться|повідомля\w+)|(?:\w+ )?TALK (?:\w+ ){0,2}не (?:згад|міст|вказ|повідом)\w*"
        r"|(?:у|в) (?:\w+ )?TALK (?:\w+ ){0,2}?(?:немає|нема|не (?:згад|вказ|йдеть|сказ)\w*)|(?:відповідь )?невідомо|невідом\w+\W*$",
    ),
    "he": Language(
        "(?:אני )?(?:מאוד )?מצטער(?:ת)?|סליחה|לצערי|מתנצל(?:ת)?",
        "אבל|אך|אולם",
        r"(?:לפי|על סמך|על פי|בהתבסס על) [^,.]{0,50}",
        r"(?:אני )?(?:לא|אינני|איני) (?:יודע(?:ת)?(?! ל)|זוכר(?:ת)?|בטוח(?:ה)?|יכול(?:ה)? (?:\w+ )?(?:לענות|לדעת|לומר|לקבוע|למצוא))\b|אין (?:לי )?(?:\w+ )?(?:מידע|מושג|אזכור|תיעוד)\b"
        r"|(?:(?!אבל )\w+ ){0,2}(?:לא|אינו|אינה) (?:צוינ?ה?|צוין|הוזכרה?|נאמר|נמסר|מוזכרת?|מצוינת?|ידוע לי)\b"
        r"|ה?(?:שיחה|שיחות|הקשר|טקסט|זיכרונות|מידע) (?:לא|אינה|אינו|אינם) \w+|ב(?:שיחה|שיחות|הקשר|טקסט|זיכרונות)(?: \w+){0,2}? (?:לא|אין)\b|(?:התשובה )?(?:לא ידוע|לא ידועה|לא ברור)\W*$",
    ),
    "fa": Language(
        "(?:من )?متاسفم|متأسفم|ببخشید|متاسفانه|متأسفانه|معذرت می ?خواهم|پوزش می ?خواهم",
        "اما|ولی",
        r"(?:بر اساس|طبق|بر طبق|با توجه به) [^,.،]{0,50}",
        r"(?:من )?(?:این را )?(?:نمی ?دانم|نمی ?دونم|(?:به )?(?:یاد|خاطر)م? ?(?:ندارم|نمی ?آید|نیست)|مطمئن نیستم|اطلاعی ندارم|خبر ندارم|نمی ?توانم (?:\S+ ){0,4}?(?:پاسخ|جواب|بگویم|تعیین|پیدا|مشخص))"
        r"|(?:هیچ )?(?:اطلاعات|اطلاعی|اشاره ?ای|ذکری)(?: [^\s,.،؛]+){0,8}? (?:وجود ندارد|نیست|نشده|ندارم|ندارد)"
        r"|(?:[^\s,.،؛]+ ){0,4}?(?:ذکر|اشاره|مشخص|گفته|بیان|قید) (?:\S+ )?(?:نشده|نشد|نمی ?شود|نکرده)"
        r"|در (?:این )?(?:گفت ?و? ?گو|مکالمه|متن|خاطرات)\S*(?: [^\s,.،؛]+){0,6}? (?:نشده|نیست|ندارد|نمی ?کند)|(?:پاسخ )?(?:نامعلوم|نامشخص|معلوم نیست|مشخص نیست)(?: است)?\W*$",
    ),
    "bn": Language(
        "(?:আমি )?(?:খুবই |অত্যন্ত )?(?:দুঃখিত|ক্ষমা করবেন)|দুর্ভাগ্যবশত|মাফ করবেন",
        "কিন্তু|তবে|যদিও",
        r"[^,।]{0,40}(?:অনুযায়ী|অনুসারে|ভিত্তিতে)",
        r"(?:আমি |আমার |আমরা )?(?:[^\s,।.]+ ){0,3}?(?:জানি ?না|জানা নেই|মনে নেই|মনে পড়ছে না|নিশ্চিত নই|বলতে পার\S* না|উত্তর দিতে পার\S* না)"
        r"|(?:[^\s,।.]+ ){0,8}?(?:তথ্য|উল্লেখ|উল্লেখ করা)(?: [^\s,।.]+){0,3}? (?:নেই|হয়নি|যায়নি|নাই)|(?:উত্তর )?(?:অজানা|জানা যায়নি)(?:\W|[\u09bc-\u09cd])*$",
    ),
}
"""language -> patterns of its refusals; similar languages share one entry, such as "cs, sk" for Czech and Slovak"""
OTHER_SCRIPTS = frozenset({"zh", "ja", "ko", "ru", "ar", "hi", "th", "el", "uk", "he", "fa", "bn"})
"""languages whose refusals contain at least one letter outside ASCII"""


def is_refusal(answer: str, phrases: Iterable[str] = ()) -> bool:
    """Return True when an answer begins with a refusal, or when its first sentence contains one of ``phrases``."""
    return _is_refusal(answer, tuple(phrases))


@functools.lru_cache(maxsize=64)  # every judge of an answer asks
def _is_refusal(answer: str, phrases: tuple[str, ...]) -> bool:
    text = _plain(answer)
    if not text:
        return False
    first = _SENTENCE_END.split(text, maxsplit=1)[0]
    if any((wanted := _plain(phrase)) and (wanted in first or text.startswith(wanted)) for phrase in phrases):
        return True
    for refusal, but, guess in _patterns(text.isascii()):
        found = refusal.match(text)
        if found is not None and not _is_of_detail(found, but):
            return not _ends_in_answer(text[found.end() :], guess)
    return False


def _ends_in_answer(rest: str, guess: re.Pattern[str]) -> bool:
    """Return True when the text after a refusal is a guess.

    "but I think Lund" is a guess; "but I think it is unknown" is not.
    """
    begins = guess.match(rest)
    if begins is None:
        return False
    guessed = _THAT.sub("", rest[begins.end() :], count=1)
    return any(map(str.isalnum, guessed)) and not _OFFER.match(guessed) and not _is_refusal(guessed, ())


def _is_of_detail(refusal: re.Match[str], but: re.Pattern[str]) -> bool:
    """Return True when an answer comes first and only a detail is refused.

    For example: "In Lund, but the street is unknown".
    """
    start = refusal.start("source") if refusal["source"] else refusal.start("refusal")
    return but.search(refusal.string, start + 1, refusal.end()) is not None


def _plain(text: str) -> str:
    text = html.unescape(_TAG.sub(" ", text[:_READ])).translate(_APOSTROPHES).translate(_MARKS)
    text = unicodedata.normalize("NFKC", text).lower().strip()
    label = _LABEL.match(text)
    return _SPACES.sub(" ", OPTIONAL_MARKS.sub("", text[label.end() :] if label else text)).strip(" ([")


@functools.cache
def _patterns(ascii_only: bool) -> list[tuple[re.Pattern[str], ...]]:
    """Return three patterns per language: for a refusal, for a word such as "but", and for the start of a guess.

    With ``ascii_only``, languages in non-Latin scripts are left out, which halves the time to compile.
    """
    found = []
    chosen = {name: entry for name, entry in LANGUAGES.items() if not (ascii_only and name in OTHER_SCRIPTS)}
    for language, (sorry, but, source, refusal) in chosen.items():
        whole = (
            rf"(?:(?:{sorry}){_BREAK}){{0,2}}(?:(?:{but}){_BREAK})?"
            rf"(?:(?P<source>{source}){_BREAK}(?:(?:{sorry}){_BREAK})?)?(?P<refusal>{refusal})"
        )
        for name, words in WORDS.items():
            whole = whole.replace(name, words)
        between, gap, end = (but, "?", "") if has_unspaced_script(but) else (rf"(?<=\s)(?:{but})(?=\s)", "", r"(?!\w)")
        before = rf"(?:[,;:–—-]\s*(?:(?:{but})[\s,]*)?|[.!]?\s{gap}(?:{but})[\s,]*)"
        guess = rf"[^.!?。।؟]{{0,200}}?{before}(?:{GUESSES.get(language, '(?!)')}){end}"
        found.append(tuple(re.compile(unicodedata.normalize("NFKC", one)) for one in (whole, between, guess)))
    return found
