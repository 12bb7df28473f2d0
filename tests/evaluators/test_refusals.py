"""Refusals in many languages, and answers that only look like one."""

from __future__ import annotations

from bench.evaluators import is_refusal
from tests.cpu_time import at_most
from tests.rows import each_row

REFUSALS = """
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
"""
ANSWERS = """
没有|没有养猫|她没有养猫，养了狗|没有找到工作|不是杭州|在蓝色花盆下面
東京ですが、正確な住所は分かりません。|知らない人に会った|여권은 서랍에 있습니다.
Nicht im Keller, sondern im Garten|Keine Katze, einen Hund|Es ist nicht weit|Je n'ai pas de chat.|Non
No, fue a París|No tiene hijos|No es Madrid|no está en casa|Não, ele mora em Lisboa|Non mangia carne
Answer: Paris|- Paris|1. Paris, I don't know the street|Answer key: I don't know|# Paris
It is not possible, she said|-5|10. I
Нет|Не ест мясо|В Москве|لا يأكل اللحم|नहीं|वह दिल्ली में रहता है|ไม่ชอบกาแฟ|เธอมีแมวสองตัว|Unfortunately, she lost the race
"""


def listed(text: str) -> list[str]:
    return [part for line in text.strip().splitlines() for part in line.split("|")]


@each_row("answer", listed(REFUSALS))
def test_a_refusal_is_known_in_its_language(answer: str) -> None:
    assert is_refusal(answer)


def test_a_refusal_below_a_heading_is_one() -> None:
    assert is_refusal("## Final answer\n\nI do not know") and not is_refusal("# Answer\nParis")


@each_row("answer", listed(ANSWERS))
def test_a_negative_answer_is_no_refusal(answer: str) -> None:
    assert not is_refusal(answer)


def test_a_benchmark_adds_phrases_of_its_own() -> None:
    assert not is_refusal("Kein Eintrag vorhanden.")
    assert is_refusal("Kein Eintrag vorhanden.", ("kein eintrag",))
    assert not is_refusal("Paris. Kein Eintrag zur Straße.", ("kein eintrag",))
    assert not is_refusal("Paris", ("",))


@each_row("text", ["В " * 400, "的" * 4_000_000, "की " * 400, "in the context of a " * 500, "会話の" * 500])
def test_a_long_answer_is_read_in_no_time(text: str) -> None:
    at_most(0.5, lambda: is_refusal(text))
