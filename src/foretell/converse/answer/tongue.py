"""Which language a typed question is in: enough to say that the reading was not made for it.

Words that a language uses all the time and others do not, and scripts. Where a conversation has a
trained detector, its decision is used instead.
"""

from __future__ import annotations

import re
import unicodedata

_WORDS = {
    "en": "the is are was were what when where which who how why does did do of and to in on with "
    "for from this that it can should will be has have there",
    "de": "ich wir sie man "
    "der die das ist sind war wird werden was wann wo welche welcher wer wie warum und nicht "
    "ein eine einen den dem von mit für auf bei zu zum zur im wieviel viele kann soll",
    "fr": "je nous vous on "
    "le la les est sont était que quoi quand où quel quelle qui comment pourquoi et ne pas "
    "un une des du de avec pour dans sur combien peut cette ce il au aux",
    "es": "yo me puedo se "
    "el la los las es son era qué cuándo dónde cuál quién cómo por y no un una de del con "
    "para en sobre cuánto cuántos puede esta este hay se",
    "it": "io mi posso si "
    "il lo la gli le è sono era che cosa quando dove quale chi come perché e non un una di "
    "del della con per nel sulla quanto quanti può questa questo",
    "pt": "eu posso "
    "o a os as é são era que quando onde qual quem como por não um uma de do da com para em "
    "sobre quanto quantos pode esta este há",
    "nl": "ik wij je "
    "de het is zijn was wat wanneer waar welke wie hoe waarom en niet een van met voor op "
    "bij naar hoeveel kan deze dit er",
    "pl": "ja mogę "
    "jest są był co kiedy gdzie który kto jak dlaczego i nie z ze dla na w do od ile może "
    "ten ta to się",
    "sv": "jag vi man "
    "är var vad när vilken vem hur varför och inte en ett av med för på till från många kan "
    "denna detta det den",
    "tr": "ne nedir neden nerede kim hangi kaç ve bir bu şu ile için değil olarak var",
}  # fmt: skip
NAMES = {
    "en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian",
    "pt": "Portuguese", "nl": "Dutch", "pl": "Polish", "sv": "Swedish", "tr": "Turkish",
    "el": "Greek", "ru": "Russian", "ar": "Arabic", "he": "Hebrew", "zh": "Chinese",
    "ja": "Japanese", "ko": "Korean", "hi": "Hindi", "th": "Thai", "vi": "Vietnamese",
}  # fmt: skip
_SCRIPTS = (
    ("HIRAGANA", "ja"), ("KATAKANA", "ja"), ("HANGUL", "ko"), ("CJK", "zh"), ("CYRILLIC", "ru"),
    ("GREEK", "el"), ("ARABIC", "ar"), ("HEBREW", "he"), ("DEVANAGARI", "hi"), ("THAI", "th"),
)  # fmt: skip
_SETS = {name: frozenset(words.split()) for name, words in _WORDS.items()}
_ENOUGH = 2  # words of another language that English has none of


def language_of(text: str) -> str:
    """The language of a text as a code of two letters; English where nothing speaks against it.

    Examples
    --------
    >>> language_of("Wie viele Pumpen sind in der Anlage?"), language_of("Pump pressure?")
    ('de', 'en')
    >>> language_of("Сколько насосов?")
    'ru'
    """
    letters = [sign for sign in text if sign.isalpha()]
    for script, code in _SCRIPTS:
        least = 0 if script in ("HIRAGANA", "KATAKANA") else len(letters) / 2
        if sum(unicodedata.name(sign, "").startswith(script) for sign in letters) > least:
            return code
    words = re.findall(r"[^\W\d_]+", text.casefold())
    counts = {code: sum(word in known for word in words) for code, known in _SETS.items()}
    best = max(counts, key=lambda code: counts[code])
    if counts[best] >= counts["en"] + _ENOUGH:
        return best
    return "en"


def language_name(code: str) -> str:
    """Its name in English, or the code itself."""
    return NAMES.get(code.split("-")[0].casefold(), code)
