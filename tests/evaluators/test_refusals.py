"""Refusals in many languages, and answers that resemble refusals."""

from __future__ import annotations

import hashlib

from bench.evaluators import is_refusal
from bench.evaluators.refusals import GUESSES, LANGUAGES, REVISION, WORDS
from bench.metrics import resolve
from tests.cpu_time import at_most
from tests.rows import each_row

REFUSALS = """
I don't have information about that.|I don't have access to that information.|I don't have a record of that.
I do not have specific information about her cat.|No idea.|I have no idea.|I have no information about that.
I have no record of this.|I'm afraid I don't know.|Not sure.|I'm not aware of any cat.|I am not certain.
I'm uncertain.|The conversation does not mention it.
The provided conversation does not contain any information about the cat.
The cat's name is not mentioned in the conversation.|Her cat's name was not mentioned.
The name of the cat isn't mentioned.|It isn't mentioned.|That's not mentioned.|That information is not available.
This information is not provided in the context.|The information is not provided.|No information available.
No relevant information found.|There is no information about that in the conversation.
There's nothing about that in our conversation.|There isn't any information on this.
There is not enough information to answer.|Not enough information.|Insufficient information.|Cannot be determined.
It cannot be determined from the context.|Cannot determine.|Unable to determine.
I couldn't find any information about it.|Based on the conversation, it is not possible to say.
Based on the provided memories, I cannot determine that.|Based on our conversation history, you haven't mentioned it.
You haven't told me that.|You never mentioned a cat.|We haven't discussed that.|We never talked about that.
Tove does not mention a cat.|The user has not mentioned it.|The speaker doesn't say.|Unknown.|The answer is unknown.
Unanswerable.|The question cannot be answered based on the given information.|This question can't be answered.
<p>I don't know</p>|I don&#39;t know|I don´t know|Hmm, I don't know.|Well, I'm not sure about that.
I apologize, but I don't have that information.|Apologies, I don't know.
As an AI, I don't have access to personal information.|None of the memories mention it.
Nothing in the conversation mentions her cat.|Neither speaker mentions it.|I don't recall.
I can't recall you mentioning it.|I don't see any mention of that.|I see no mention of that.
I do not find any reference to it.|No mention of it.|Not mentioned.|Not specified.|Not in the context.|N/A
It's unclear.|It's not clear from the conversation.|It is unclear whether she has a cat.|It does not say.
There was no mention of a cat.|The memories don't say.|My memory does not include that.
Ich habe dazu keine Informationen.|Dazu liegen mir keine Informationen vor.|Das geht aus dem Gespräch nicht hervor.
Keine Ahnung.|Keine Angabe.|Je n'en sais rien.|Ce n'est pas mentionné.|Aucune idée.|Ni idea.|No tengo ni idea.
Non ne ho idea.|Nessuna idea.|Não faço ideia.|Не могу сказать.|Понятия не имею.|ما عندي معلومات|Geen idee.
Nie mam pojęcia.|Brak danych.
Based on the provided memories, there is no information about it.
对话中没有提到护照放在哪里。|抱歉，我不知道。|根据对话内容，没有提到护照。|没有提到|護照的位置沒有提及。|无法确定。
会話の中ではパスポートの場所について言及されていません。
申し訳ありませんが、わかりません。|その情報は記録にありません。|不明です。
죄송합니다, 모르겠습니다.|대화에서 여권에 대한 언급이 없습니다.|여권 위치는 언급되지 않았습니다.
Das weiß ich leider nicht.|Es tut mir leid, aber dazu gibt es keine Informationen.
Im Gespräch wird der Pass nicht erwähnt.
Je ne sais pas.|Désolé, je n'ai pas d'informations à ce sujet.|La conversation ne mentionne pas le passeport.
No lo sé.|Lo siento, no tengo información sobre eso.|La conversación no menciona el pasaporte.|No se menciona.
Não sei.|Desculpe, não há informações sobre isso.|A conversa não menciona o passaporte.|Isso não foi mencionado.
Non lo so.|Mi dispiace, non ho informazioni.|Non è stato menzionato.|La conversazione non menziona il passaporto.
Я не знаю.|К сожалению, в разговоре об этом не упоминается.|Нет информации о паспорте.|Неизвестно.
لا أعرف.|عذرًا، لا توجد معلومات عن جواز السفر.|لم يتم ذكر جواز السفر في المحادثة.|لا تذكر المحادثة مكان الجواز.
मुझे नहीं पता।|क्षमा करें, इस बारे में कोई जानकारी नहीं है।|बातचीत में पासपोर्ट का उल्लेख नहीं किया गया है।
ไม่ทราบครับ|ขอโทษค่ะ ไม่มีข้อมูลเรื่องนี้|ในบทสนทนาไม่ได้กล่าวถึงหนังสือเดินทาง|จำไม่ได้
Answer: I don't know.|> I do not know|- I don't know|1. I don't know|**Answer:** I don't know|答案：不知道
The answer is: unknown|It is not possible to determine this from the context.|It's impossible to say.
Bilmiyorum.|Ik weet het niet.|Nie wiem.|Не знаю.|Tôi không biết.|Saya tidak tahu.
Jag vet inte.|Tyvärr vet jag inte.|Det finns ingen information om det i samtalet.|Passet nämns inte.
I samtalet nämns inget pass.
Jeg ved det ikke.|Det ved jeg desværre ikke.|Der er ingen oplysninger om det i samtalen.|Det nævnes ikke i samtalen.
Passet er ikke nævnt.
Jeg vet ikke.|Beklager, jeg vet ikke.|Det finnes ingen informasjon om det i samtalen.|Passet er ikke nevnt i samtalen.
En tiedä.|Valitettavasti en tiedä.|Keskustelussa ei mainita passia.|Siitä ei ole tietoa.
Keskustelun perusteella en osaa sanoa.
Nevím.|Bohužel to nevím.|V konverzaci o tom není žádná informace.|Pas se v rozhovoru nezmiňuje.|Není to uvedeno.
Neviem.|Žiaľ, neviem.|V rozhovore o tom nie je žiadna informácia.|V konverzácii sa to nespomína.
Nem tudom.|Sajnos nem tudom.|Erről nincs információ a beszélgetésben.|A beszélgetés nem említi az útlevelet.
Nu știu.|Îmi pare rău, dar nu știu.|Nu există informații despre asta în conversație.
Conversația nu menționează pașaportul.|Nu se menționează.
Δεν ξέρω.|Λυπάμαι, δεν γνωρίζω.|Δεν υπάρχουν πληροφορίες για αυτό στη συνομιλία.|Στη συνομιλία δεν αναφέρεται.
Δεν αναφέρεται.
לא יודע.|אני לא יודעת.|מצטער, אין לי מידע על כך.|אין מידע על כך בשיחה.|הדרכון לא הוזכר בשיחה.|לא ידוע
نمی‌دانم.|متاسفم، نمی دانم.|در گفتگو اطلاعاتی درباره آن وجود ندارد.|در این مکالمه به گذرنامه اشاره نشده است.
ذکر نشده است.
আমি জানি না।|দুঃখিত, আমি জানি না।|কথোপকথনে এ বিষয়ে কোনো তথ্য নেই।|পাসপোর্টের উল্লেখ নেই।
На жаль, я не знаю.|У розмові про це немає інформації.|Про це не згадується.|Паспорт не згадується в розмові.
Xin lỗi, tôi không biết.|Không có thông tin về điều đó trong cuộc trò chuyện.|Maaf, saya tidak tahu.
Tidak ada informasi tentang itu dalam percakapan.
Svar: Jag vet inte|Vastaus: en tiedä|Sorry, but I don't know|But I don't know|抱歉，但我不知道。
I don't know, but I can search for it|I don't know, but I think it is not mentioned.
I'm not sure, but I think you did not mention it|I don't know, but perhaps you can tell me
I don't know, but maybe if you tell me more I can help
I don't have that information, but it might be in another conversation
I'm not sure, but I think we haven't discussed that.|I don't know. I think the conversation doesn't mention it.
I don't know, but I think I can help you find it|I don't know what I think
I don't know, but probably you should ask Tove|I'm not sure, but I think there is no information about that.
I don't know, but maybe.|Ich weiß es nicht, aber ich kann suchen|Je ne sais pas, mais je peux chercher
I don't know, maybe ask Tove|No lo sé, pero creo que no se menciona.|I'm not sure, but I think I don't know
Not sure, but let me check
"""
ANSWERS = """
Not sure-footed|No information desk|I have no idea bank|She isn't mentioned often|We haven't met|Nothing|None|Neither
No cat|Not available on Mondays|They did not go|She didn't like it|There isn't any cat|There's nothing in the box
Unable to swim|Cannot swim|Unclear water|It is not clear water|You haven't a cat|Nothing in the drawer|Nobody
The information desk|The name of the cat is Pelle|I have no cat|I don't have a cat|I don't have siblings
I have no record player|I do not have specific allergies|We haven't talked in a while|I haven't told her
She never mentioned it to her mother|There was no answer|The room is not available
Her sister, whose name isn't mentioned|The shop whose price is not mentioned|It is not available on Mondays
Nothing about the cat|I don't know how to swim|She is not known for singing|I'm afraid of dogs|Well, in Lund
No details but the date|The historian did not tell his wife
没有|没有养猫|她没有养猫，养了狗|没有找到工作|不是杭州|在蓝色花盆下面
東京ですが、正確な住所は分かりません。|知らない人に会った|여권은 서랍에 있습니다.
Nicht im Keller, sondern im Garten|Keine Katze, einen Hund|Es ist nicht weit|Je n'ai pas de chat.|Non
No, fue a París|No tiene hijos|No es Madrid|no está en casa|Não, ele mora em Lisboa|Non mangia carne
Answer: Paris|- Paris|1. Paris, I don't know the street|Answer key: I don't know|# Paris
It is not possible, she said|-5|10. I
Nach Lund, aber das Datum wird nicht erwähnt.|In Lund but the street is not mentioned
Nel cassetto, ma non è specificato il colore
No Porto, mas não é mencionada a rua|Dans le tiroir, mais la couleur n'est pas précisée|В Москве, но адрес не указан
Не говорит по-русски
她住在隆德但街道没有提到|ルンドに住んでいますが通りは言及されていません|룬드에 살지만 거리는 언급되지 않았습니다
वह लुंड में रहता है लेकिन सड़क का उल्लेख नहीं
Nej|Inte i Lund|Det finns ingen hiss|Hon vet inte|Hon bor i Lund men gatan nämns inte|Hon är inte känd|Inga uppgifter
Kommer inte
Nei|Hun er ikke kendt|Lund, men gaden er ikke nævnt|Hun ved det ikke|Ikke i Lund|Der er ingen elevator
Hun har ingen katt
Ei|Ei Lundissa|Ei ole|Tuntematon sotilas|Hän ei tiedä|Lundissa, mutta katua ei mainita|Ei syö lihaa
Ne|Nemá kočku|Neví|Není v Praze|V Brně, ale ulice není uvedena|Nie|Nemá mačku|Nejí maso|Není to daleko
Nem|Nem eszik húst|Nincs macskája|Nem tudja|Lundban, de az utca nem szerepel|Nem szerepel|Nu|Nu are pisică
Nu este acasă|La Lund, dar strada nu este menționată
Όχι|Δεν έχει γάτα|Δεν τρώει κρέας|Στη Λουντ, αλλά η οδός δεν αναφέρεται|Ο άγνωστος στρατιώτης|Δεν ξέρει
לא|אין לה חתול|לא יודעת לשחות|בלונד, אבל הרחוב לא הוזכר|היא לא אוכלת בשר|אין לו מכונית
نه|گربه ندارد|گوشت نمی‌خورد|در لوند، اما خیابان ذکر نشده|او نمی‌داند|না|তার বিড়াল নেই|তিনি মাংস খান না
তিনি লুন্ডে থাকেন কিন্তু রাস্তার উল্লেখ নেই
Ні|Не їсть м'яса|У Львові, але вулиця не вказана|Не говорить російською|Không|Không ăn thịt|Anh ấy không có mèo|Tidak
Tidak makan daging
Нет|Не ест мясо|В Москве|لا يأكل اللحم|नहीं|वह दिल्ली में रहता है|ไม่ชอบกาแฟ|เธอมีแมวสองตัว
Unfortunately, she lost the race
I'm not sure, but I think Lund|I'm not sure, but I think she lives in Lund.
I don't know the exact date, but it was probably in May.|I don't know for certain, but I believe that it's Pelle.
I am not certain. But I think it was Lund.|Not sure, maybe Lund?|It's not mentioned, but it is likely Lund.
I can't say for sure, but my best guess is Lund|The conversation does not mention it, but she probably lives in Lund.
I'm not sure, however, I would guess Lund|I don't have information about the street, but perhaps Main Street
I'm not sure but it might be Lund|Ich bin mir nicht sicher, aber ich glaube Lund.
Ich weiß es nicht, aber wahrscheinlich in Lund|Je ne sais pas, mais je pense que c'est Lund.
No lo sé, pero creo que es Lund.|No estoy seguro, pero creo que Lund|Não sei, mas acho que é Lund.
Non lo so, ma credo Lund.|我不确定，但我觉得是隆德。|Я не знаю, но думаю, что Лунд.|Ik weet het niet, maar ik denk Lund
Jag vet inte, men jag tror Lund|Nie wiem, ale chyba Lund
"""


def listed(text: str) -> list[str]:
    return [part for line in text.strip().splitlines() for part in line.split("|")]


@each_row("answer", listed(REFUSALS))
def test_a_refusal_is_recognized_in_each_language(answer: str) -> None:
    assert is_refusal(answer)


def test_changed_refusal_patterns_need_a_new_revision() -> None:
    digest = hashlib.sha256(repr((sorted(LANGUAGES.items()), WORDS, GUESSES)).encode()).hexdigest()
    assert resolve("over_abstention_rate").definition == f"over_abstention_rate/{REVISION}"
    assert (REVISION, digest[:12]) == (3, "07ac927f3344")


def test_a_refusal_below_a_heading_is_recognized() -> None:
    assert is_refusal("## Final answer\n\nI do not know") and not is_refusal("# Answer\nParis")


@each_row("answer", listed(ANSWERS))
def test_a_negative_answer_is_not_a_refusal(answer: str) -> None:
    assert not is_refusal(answer)


def test_a_benchmark_may_add_refusal_phrases() -> None:
    assert not is_refusal("Kein Eintrag vorhanden.")
    assert is_refusal("Kein Eintrag vorhanden.", ("kein eintrag",))
    assert not is_refusal("Paris. Kein Eintrag zur Straße.", ("kein eintrag",))
    assert not is_refusal("Paris", ("",))


STARTS = ("В ", "i samtal ", "در این ", "আমি ", "a beszélgetés ", "की ", "in the context of a ", "会話の")


@each_row("text", ["的" * 4_000_000, *(start * 500 for start in STARTS)])
def test_is_refusal_reads_a_long_answer_within_half_a_second(text: str) -> None:
    at_most(0.5, lambda: is_refusal(text))
