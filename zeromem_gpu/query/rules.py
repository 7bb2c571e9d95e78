"""The words and patterns that the query rules look for; the rules that use them are named in brackets.

Everything here is general English: question words, nouns that name a kind of answer, words of time. A
table is read top to bottom and the first hit counts. Nothing is taken from a benchmark's wording.
"""

from __future__ import annotations

import re

WH = frozenset("what which who whom whose when where why how whatever whichever".split())
AUXILIARIES = frozenset(
    """is are was were am be do does did has have had can could will would shall should may might must
    isn't aren't wasn't weren't don't doesn't didn't hasn't haven't hadn't can't couldn't won't wouldn't
    ain't""".split()
)
BE = frozenset("is are was were be been being 's 're am".split())

# words that no other common language shares: one of them makes a question English [reading]
ENGLISH = frozenset(
    """what which who whom whose when where why how did does the of and are were has have had would could
    should with from this that these those they their her his she it its my your you our tell any about
    after before during list describe explain""".split()
)

# -- answer type [form] ----------------------------------------------------------------------------------

# "how" + word
HOW = {
    "many": "count", "much": "number", "long": "duration", "often": "frequency",
    "frequently": "frequency", "regularly": "frequency", "old": "age", "young": "age", "come": "reason",
    "soon": "duration", "recently": "date", "early": "date", "late": "date",
} | dict.fromkeys(
    """tall large big high deep far heavy wide fast hot cold small short low thick thin broad strong
    expensive populous warm quick loud bright distant steep costly rich""".split(),
    "number",
)  # fmt: skip

# "how many" + unit of time, "how much time"
TIME_UNITS = frozenset(
    """second seconds minute minutes hour hours day days night nights week weeks weekend weekends month
    months year years decade decades century centuries time""".split()
)

# "how long is X": X lasts if it is one of these (or ends like one), else X has a length
LASTING = frozenset(
    """movie film episode show song track album concert play opera performance match game race war battle
    siege reign term tenure career course class lesson lecture semester training session workshop meeting
    conference call interview trip journey flight drive ride commute walk hike tour cruise voyage vacation
    holiday break stay visit wait delay shift day week season event festival party ceremony wedding
    marriage engagement relationship friendship pregnancy surgery operation treatment recovery lease
    contract warranty sentence internship apprenticeship project programme program process period phase
    lifespan life video podcast audiobook movie nap sleep""".split()
)
LASTING_ENDINGS = ("tion", "ship", "ing", "ment", "hood")
LENGTH_UNITS = frozenset(
    """metre metres meter meters kilometre kilometres kilometer kilometers km mile miles feet foot inch
    inches yard yards page pages""".split()
)

# the noun asked for ("which X", "what is the X of"): singular → type
NOUNS: dict[str, str] = (
    dict.fromkeys(
        "date day month year decade century weekday birthday birthdate era season".split(), "date"
    )
    | dict.fromkeys("duration period lifespan timespan".split(), "duration")
    | dict.fromkeys("frequency".split(), "frequency")
    | dict.fromkeys("age".split(), "age")
    | dict.fromkeys(
        """number amount population price cost height length width depth weight size area distance speed
        temperature capacity percentage percent proportion ratio score salary income budget fee rate total
        elevation altitude volume value fare rent mass quantity""".split(),
        "number",
    )
    | dict.fromkeys(
        """place location city town village country state county province region continent district suburb
        borough island neighbourhood neighborhood street address venue airport nation territory hometown
        birthplace prefecture destination capital municipality""".split(),
        "place",
    )
    | dict.fromkeys(
        """person people man woman boy girl child actor actress author writer poet novelist playwright
        singer musician composer drummer guitarist rapper director producer screenwriter artist painter
        sculptor architect designer photographer scientist physicist chemist mathematician philosopher
        historian engineer inventor president king queen emperor prince princess politician senator governor
        mayor
        minister lawyer judge officer general captain pilot astronaut player footballer quarterback
        goalkeeper coach athlete champion winner runner founder owner ceo chairman businessman host
        presenter journalist comedian dancer model doctor nurse teacher professor student friend colleague
        neighbour
        neighbor brother sister mother father parent son daughter uncle aunt cousin grandmother grandfather
        husband wife spouse partner boyfriend girlfriend boss member candidate victim murderer character
        protagonist detective chef priest saint pope monarch star celebrity figure""".split(),
        "person",
    )
    | dict.fromkeys(
        """book novel film movie song album single series show sitcom play musical opera poem game magazine
        newspaper journal story documentary soundtrack anthem title comic podcast symphony
        ballet""".split(),
        "title",
    )
    | dict.fromkeys("reason cause motive motivation purpose rationale".split(), "reason")
    # what something looks like, means or feels like can only be described
    | dict.fromkeys(
        """painting picture photo photograph image drawing sketch poster sign illustration description
        reaction opinion view attitude impression feeling thought advice meaning significance sentiment
        explanation message lesson difference effect impact role story experience""".split(),
        "description",
    )
)  # fmt: skip
NOUNS["story"] = "title"

# the same as determiner: "what area was flooded"
DETERMINED = {"area": "place", "size": "number"}
NOT_PLURAL = frozenset(
    "series species news headquarters politics mathematics physics gymnastics means".split()
)

# "what made/inspired ..." asks for a reason [form]
CAUSING = frozenset(
    """made makes make caused causes cause led leads motivated motivates inspired inspires prompted prompts
    drove drives persuaded convinced triggered""".split()
)
# "what did X say": verbs whose object is told, not named [form]
TELLING = frozenset(
    """say says said think thinks thought realize realise realized realised feel feels felt believe believes
    believed describe describes described mention mentions mentioned tell tells told learn learns learned
    learnt explain explains explained mean means meant symbolize symbolizes symbolise symbolises represent
    represents happen happens happened discuss discussed discusses suggest suggests suggested advise
    advises notice noticed discover discovered imply implies""".split()
)
# "how do they like to ..." asks for the thing liked [form]
PREFERRING = frozenset("like likes love loves prefer prefers enjoy enjoys want wants".split())
COMMANDS = {
    "list": "list", "enumerate": "list", "describe": "description", "explain": "description",
    "summarize": "description", "summarise": "description", "tell": "description", "name": "entity",
}  # fmt: skip

# -- options, comparison, coordination [names, route] ----------------------------------------------------

COMPARING_TAGS = frozenset(("JJR", "JJS", "RBR", "RBS"))
COMPARING = frozenset("first last more most less least earlier later sooner better rather same".split())
SHARING = frozenset("both common same mutual each neither alike".split())
AGGREGATING = frozenset("times total altogether overall all every combined so-far".split())

# -- names [names] ---------------------------------------------------------------------------------------

MONTHS = "january february march april may june july august september october november december".split()
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
NOT_NAMES = frozenset(MONTHS) | frozenset(WEEKDAYS) | frozenset("i i'm i've i'd i'll ok okay".split())
JOINERS = frozenset("of the à de la le du del da di der den von van bin ibn al el y & v. vs. v vs".split())
# names that are also plain words: they count only where they are written with a capital
WORD_NAMES = frozenset(
    """will may mark grace joy hope rose art bill rich drew faith dawn summer april june august jack frank
    grant chase hunter mason miles dean guy pat rob ray sunny amber ruby pearl ivy lily daisy violet olive
    ginger sandy cliff dale glen heath reed wade bob gene dot max penny nick sue
    mike an in so do see""".split()
)
FIRST_PERSON = frozenset("i me my mine myself i'm i've i'd".split())
SECOND_PERSON = frozenset("you your yours yourself".split())
SELF_NAMES = frozenset("user human me".split())
OTHER_NAMES = frozenset("assistant ai bot agent system".split())

# NER labels that name nothing
VALUE_LABELS = frozenset("ORDINAL CARDINAL DATE TIME PERCENT MONEY QUANTITY".split())
# labels under which a name may hold "and" or "or"
LONG_LABELS = frozenset("WORK_OF_ART ORG FAC LAW PRODUCT EVENT".split())

QUOTED = re.compile(
    r"\"([^\"\n]{1,200})\"|“([^”\n]{1,200})”|«([^»\n]{1,200})»|„([^“”\n]{1,200})[“”]|「([^」\n]{1,200})」"
    r"|(?<!\w)[‘']([^‘’'\n]+(?:['’]\w[^‘’'\n]*)*)['’](?!\w)"
)

# -- time [cues] -----------------------------------------------------------------------------------------

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_YEAR = r"(?:1[0-9]{3}|20[0-9]{2})"
_DAY = r"(?:0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?"
_DATE = (
    rf"(?:\b{_YEAR}-[01][0-9](?:-[0-3][0-9])?\b|\b[0-3]?[0-9]/[0-3]?[0-9]/{_YEAR}\b"
    rf"|\b{_MONTH}\s+{_DAY}(?:\s*,\s*|\s+){_YEAR}\b|\b{_DAY}\s+(?:of\s+)?{_MONTH}(?:\s*,\s*|\s+){_YEAR}\b"
    rf"|\b{_MONTH}(?:\s*,\s*|\s+(?:of\s+)?){_YEAR}\b|\b{_YEAR}\b(?!-\w|\s*(?:metres|meters|km|people|miles)))"
)
DATES = re.compile(
    rf"(?:\b(?:from|between)\s+)?(?P<first>{_DATE})"
    rf"(?:\s*(?:\bto\b|\btill\b|\buntil\b|\band\b|[-–—])\s*(?P<second>{_DATE}))?",
    re.IGNORECASE,
)
BARE_MONTH = re.compile(
    r"\b(?:in|during|of|last|this|next|since|until|before|after|by)\s+"
    rf"(?P<month>{'|'.join(name.capitalize() for name in MONTHS)})\b"
)
RELATIVE = re.compile(
    r"\b(?:(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|several|few|many)\s+"
    r"(?:second|minute|hour|day|night|week|weekend|month|year|decade)s?\s+(?:ago|earlier|later|before|after)"
    r"|(?:last|this|next|past)\s+(?:night|week|weekend|month|year|summer|winter|spring|autumn|fall|"
    + "|".join((*WEEKDAYS, *MONTHS))
    + r")|yesterday|today|tonight|tomorrow|recently|lately)\b",
    re.IGNORECASE,
)
LINKS = frozenset("before after during while since until till following around upon when once".split())
ORDER = {
    "first": "first", "earliest": "first", "earlier": "first", "sooner": "first", "initially": "first",
    "originally": "first", "last": "last", "latest": "last", "later": "last", "newest": "last",
    "recent": "last", "lastly": "last",
}  # fmt: skip
VALUES = re.compile(r"(?<![\w.])[$€£¥]?\d+(?:[.,:]\d+)*(?:[%°]|[a-z]{1,3}\b)?(?!\w)")
