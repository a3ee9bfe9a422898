"""Words of the synthetic paraphrase grammar, authored for this project: synonym sets, names and English inflection.

Every synonym set lists its plainest word first and the most formal one last. No inflected form belongs to two sets
(tests/unit/preprocess checks it), so a word is enough to know its set.
"""

from typing import NamedTuple

VERB_SETS: tuple[str, ...] = tuple(
    """
    build construct erect / destroy demolish raze / repair restore renovate / strengthen reinforce fortify /
    buy purchase acquire / accept approve endorse ratify / reject dismiss rebuff / cancel annul revoke /
    change alter modify amend / announce proclaim / support advocate / criticise condemn denounce /
    find discover detect / study examine investigate / prove confirm verify / explain clarify elucidate /
    test assess evaluate / invent devise / cure heal / help assist aid / calm soothe pacify / save rescue /
    attack assault / protect defend safeguard / take seize capture / defeat vanquish / leave abandon /
    surround encircle / warn alert caution / write compose pen / publish issue / praise laud commend / read peruse /
    mock ridicule deride / copy imitate replicate / show display exhibit / beat overcome / win clinch /
    watch observe / delay postpone defer / sell / make produce manufacture / start establish institute /
    close shut / hire employ recruit / improve enhance refine / use utilise / teach instruct educate /
    learn master / finish complete / choose select / steal pilfer / catch arrest apprehend / question interrogate /
    free liberate / hide conceal / punish penalise / trick deceive / chase pursue / grow cultivate /
    gather collect / kill slay / see notice spot / feed nourish / cross traverse / explore survey / map chart /
    describe depict portray / avoid evade shun / climb ascend / plan organise arrange / celebrate commemorate /
    decorate adorn embellish / love adore cherish / damage harm / hit strike / go travel journey / die perish /
    live reside / move relocate / work labour toil / say state assert / think believe / try attempt endeavour /
    decide resolve / promise pledge vow / refuse decline / give award grant / rise increase /
    eat consume devour / taste sample / prepare
    """.split("/")
)

# Behind the colon: the first words of the adjective sets that go with the noun.
NOUN_SETS: tuple[str, ...] = tuple(
    """
    engineer : clever famous / worker labourer : strong tired poor / architect : famous young clever /
    house dwelling residence : big old ugly expensive empty / monument memorial : huge ugly modern /
    road highway thoroughfare : old important new / wall barrier rampart : strong old huge /
    bridge : old strong huge / harbour port : big important / lawmaker legislator : stubborn famous honest /
    politician statesman : famous honest clever / king monarch sovereign : cruel elderly rich /
    minister : young honest stubborn / government administration : new weak / parliament legislature : new weak /
    law statute decree : strict disputed fair / proposal suggestion : disputed simple wrong / tax levy : high /
    agreement treaty pact : secret important fair / rule regulation : strict simple fair /
    scientist researcher : clever famous young / professor academic scholar : clever famous honest /
    expert specialist : famous clever / theory hypothesis : basic complex wrong /
    method technique procedure : simple complex useful / illness disease ailment : strange rare serious /
    substance compound : rare dangerous useful / mistake error : serious strange /
    doctor physician : kind famous young / nurse : kind tired young / patient : sick weak elderly /
    child infant : sick hungry happy tiny / general commander : cruel brave famous /
    soldier warrior : brave tired loyal / rebel insurgent : brave angry / army : big strong /
    town settlement : small rich distant / castle fortress citadel : strong old huge /
    enemy foe adversary : strong cruel angry / ship vessel : big fast modern / writer author : famous young poor /
    painter artist : famous poor young / singer vocalist : famous young / critic reviewer : famous honest /
    book novel : famous boring funny / poem verse : sad short pretty /
    story tale narrative : funny sad strange short / song melody : sad funny pretty /
    picture portrait : pretty strange valuable famous / player athlete : strong young fast /
    coach trainer : stubborn famous elderly / team squad : strong weak young / match game : exciting boring vital /
    prize trophy : important valuable / tournament competition championship : important exciting /
    rival opponent : strong fast stubborn / owner proprietor : rich elderly honest /
    merchant trader : rich clever honest / manager executive : rich clever lazy /
    company firm enterprise : rich big modern / shop store : small modern expensive /
    factory mill : dirty ugly modern / car automobile : cheap expensive fast modern /
    machine device : complex modern useful / employee : lazy tired honest /
    teacher instructor educator : kind strict clever / student pupil : clever lazy young /
    school academy college : small famous modern / lesson lecture : boring basic short /
    subject discipline : hard useful basic / exam examination : hard vital short /
    judge magistrate : strict honest elderly / lawyer attorney : clever expensive honest /
    thief robber burglar : clever young poor / policeman constable : honest brave young /
    jewel gem : valuable rare huge / document file : secret important valuable /
    prisoner captive inmate : dangerous sick / criminal offender culprit : dangerous cruel young /
    witness bystander : honest young / farmer grower : poor elderly kind / fisherman angler : poor elderly tired /
    hunter : brave elderly hungry / animal beast creature : wild strange hungry / crop : rare useful /
    forest woodland : huge dark / field meadow pasture : big pretty dry / bird : rare tiny pretty /
    horse steed : wild fast strong / explorer : brave famous tired / sailor mariner : brave elderly tired /
    pilot aviator : brave young / river stream : dangerous cold dirty / island isle : distant empty pretty /
    desert wasteland : dry empty huge / mountain peak : cold distant / cave cavern : dark cold empty /
    region territory : distant dry poor / guest visitor : happy hungry / neighbour : kind quiet /
    friend companion comrade : loyal kind / party celebration : happy exciting quiet /
    meal feast banquet : tasty cheap expensive / wedding : happy expensive / garden : quiet pretty small /
    room chamber : dark dirty quiet / gift present : cheap valuable / storm tempest gale : / fire blaze : /
    flood deluge : / earthquake tremor : / war conflict : / village hamlet : small poor quiet distant /
    battle clash : / job occupation : / reason motive : /
    cook chef : clever famous tired / soup broth : tasty cold / cake pastry : tasty expensive /
    letter : secret short sad / medal : valuable
    """.split("/")
)

ADJECTIVE_SETS: tuple[str, ...] = tuple(
    """
    big large sizeable / huge enormous immense / small compact / tiny minuscule / old ancient / elderly aged /
    modern contemporary / strong sturdy robust / weak feeble frail / pretty beautiful picturesque / ugly unsightly /
    important significant notable / strict stringent rigorous / disputed contentious controversial /
    strange odd peculiar / rare uncommon scarce / simple straightforward / complex complicated intricate /
    dangerous hazardous perilous / serious grave / famous renowned eminent / sad sorrowful melancholy /
    funny amusing humorous / short brief concise / boring dull tedious / exciting thrilling /
    hard difficult arduous / vital crucial decisive / cheap inexpensive affordable / expensive costly /
    rich wealthy affluent / poor impoverished destitute / clever intelligent gifted / useful beneficial /
    basic fundamental elementary / valuable precious / secret confidential covert / wild untamed / hungry famished /
    sick ill ailing / distant remote / dry arid / cold chilly frigid / dirty filthy / happy joyful cheerful /
    tasty delicious / quiet tranquil peaceful / brave courageous valiant / young youthful / tired weary exhausted /
    angry furious irate / kind benevolent / lazy idle / empty vacant deserted / cruel brutal ruthless /
    loyal faithful devoted / stubborn obstinate / honest truthful sincere / wrong false erroneous /
    fair just equitable / fast swift rapid / high steep / dark gloomy / new
    """.split("/")
)

# Invariable words; "_" joins the words of a phrase.
OTHER_SETS: tuple[str, ...] = (
    "quickly rapidly swiftly",
    "carefully cautiously",
    "secretly covertly",
    "finally eventually ultimately",
    "soon shortly",
    "suddenly abruptly",
    "bravely courageously",
    "openly publicly",
    "gladly willingly",
    "slowly gradually",
    "many numerous a_large_number_of",
    "several various a_number_of",
    "about roughly approximately",
    "over more_than in_excess_of",
    "very extremely exceedingly",
    "near beside in_the_vicinity_of",
    "because since owing_to_the_fact_that",
    "then afterwards subsequently",
    "after once as_soon_as",
    "during throughout",
    "despite notwithstanding in_spite_of",
    "while whilst",
    "people persons individuals",
    "almost nearly virtually",
)

FEMALE_NAMES: tuple[str, ...] = tuple(
    """anna maria clara helen julia laura emma alice ruth sofia nina elena marta ingrid rosa lucy sarah jane
    martha edith grace irene vera olga teresa amelia carmen dora flora gloria hannah ida judith lydia miriam
    nora paula rachel sylvia ursula""".split()
)
MALE_NAMES: tuple[str, ...] = tuple(
    """john peter paul thomas henry george martin david daniel samuel victor oscar hugo felix anton karl emil
    walter robert edward frank louis simon jacob joseph marco pedro stefan ivan leo arthur bernard conrad
    edmund gilbert harold jonas lucas norman oliver""".split()
)
SURNAMES: tuple[str, ...] = tuple(
    """adler baker barlow benson bishop blake bolton bowman brandt briggs burton carver chandler clifford
    cooper dalton dawson denton dixon draper duncan elliott emerson fischer fletcher foster garcia gibson
    gordon graves hansen harper hawkins hoffman holmes hudson jansen jensen keller kennedy lambert larsen
    lindberg lopez lowell mercer meyer milton moreau morgan murphy nelson newman norris novak olsen palmer
    parker petrov porter quinn ramsey reyes rossi sawyer schmidt sharp silva stone sutton tanner thornton
    turner vargas vogel wagner walsh weber whitman winter""".split()
)
# Invented towns: every ending on every beginning would be 120; the step below keeps 90 of them.
_BEGINNINGS = "ash bracken cold elm fern green hazel king lang marsh north oak raven stan wind".split()
_ENDINGS = "bury dale field ford ham mere ton wick".split()
TOWNS: tuple[str, ...] = tuple(
    begin + end
    for number, (begin, end) in enumerate((begin, end) for begin in _BEGINNINGS for end in _ENDINGS)
    if number % 4 != 3
)
COUNTRIES: tuple[str, ...] = tuple(
    """norway sweden denmark finland poland austria hungary portugal spain italy greece turkey egypt kenya
    nigeria india china japan canada mexico brazil peru chile argentina""".split()
)

IRREGULAR_VERBS: dict[str, tuple[str, str]] = {
    "build": ("built", "built"),
    "buy": ("bought", "bought"),
    "find": ("found", "found"),
    "take": ("took", "taken"),
    "leave": ("left", "left"),
    "write": ("wrote", "written"),
    "read": ("read", "read"),
    "show": ("showed", "shown"),
    "beat": ("beat", "beaten"),
    "overcome": ("overcame", "overcome"),
    "win": ("won", "won"),
    "sell": ("sold", "sold"),
    "make": ("made", "made"),
    "shut": ("shut", "shut"),
    "teach": ("taught", "taught"),
    "choose": ("chose", "chosen"),
    "steal": ("stole", "stolen"),
    "catch": ("caught", "caught"),
    "hide": ("hid", "hidden"),
    "grow": ("grew", "grown"),
    "slay": ("slew", "slain"),
    "see": ("saw", "seen"),
    "feed": ("fed", "fed"),
    "hit": ("hit", "hit"),
    "strike": ("struck", "struck"),
    "go": ("went", "gone"),
    "say": ("said", "said"),
    "think": ("thought", "thought"),
    "eat": ("ate", "eaten"),
    "give": ("gave", "given"),
    "rise": ("rose", "risen"),
}
DOUBLING_VERBS = frozenset("annul cancel defer map pen plan shun spot travel".split())
IRREGULAR_PLURALS: dict[str, str] = {
    "child": "children",
    "thief": "thieves",
    "statesman": "statesmen",
    "policeman": "policemen",
    "fisherman": "fishermen",
    "monarch": "monarchs",
    "hypothesis": "hypotheses",
    "people": "people",
}


class SynonymSet(NamedTuple):
    """Words of one meaning, plainest first; `kind` is verb, noun, adjective or other."""

    kind: str
    words: tuple[str, ...]
    adjectives: tuple[str, ...] = ()


def inflect(word: str, form: str) -> str:
    """Return `word` in one of the forms base, past, pp (verbs), s, p (nouns: singular, plural)."""
    if form in ("base", "s"):
        return word
    if form == "p":
        return IRREGULAR_PLURALS.get(word) or _plural(word)
    if word in IRREGULAR_VERBS:
        return IRREGULAR_VERBS[word][form == "pp"]
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ied"
    return word + (word[-1] if word in DOUBLING_VERBS else "") + "ed"


def _plural(noun: str) -> str:
    """Return the regular plural."""
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def _parse_sets() -> dict[str, SynonymSet]:
    """Index all sets by their plainest word."""
    sets: dict[str, SynonymSet] = {}
    tables = (("verb", VERB_SETS), ("noun", NOUN_SETS), ("adjective", ADJECTIVE_SETS), ("other", OTHER_SETS))
    for kind, lines in tables:
        for line in lines:
            words, _, adjectives = line.partition(":")
            members = tuple(word.replace("_", " ") for word in words.split())
            sets[members[0]] = SynonymSet(kind, members, tuple(adjectives.split()))
    return sets


LEXICON: dict[str, SynonymSet] = _parse_sets()


def surface_sets() -> list[tuple[str, ...]]:
    """Return every synonym set with two words or more in each form in which it is written, plainest first."""
    forms = {"verb": ("base", "past", "pp"), "noun": ("s", "p"), "adjective": ("s",), "other": ("s",)}
    found: dict[tuple[str, ...], None] = {}
    for entry in LEXICON.values():
        if len(entry.words) > 1:
            for form in forms[entry.kind]:
                found[tuple(inflect(word, form) for word in entry.words)] = None
    return list(found)
