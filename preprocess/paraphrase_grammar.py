"""Grammar data of the synthetic paraphrase pairs, authored for this project: constructions, wordy phrases, domains.

A template gives the source and the target pattern of one construction. `{slot}` or `{slot.form}` is filled once for the
pair and written on each side in that side's words. Capital slots are scene parts (`paraphrase_scene.Scene` documents
each), small ones synonym sets, `{~cue}` one of the wordy source phrases of `CUES`.
"""

from typing import NamedTuple

# weight | source => target
TEMPLATES: str = """
8 | {A} {Adv} {V.past} {O} {W} {T} . => {A} {Adv} {V.past} {O} {W} {T} .
4 | the {R} {N} {Adv} {V.past} {O} {W} {T} . => the {R} {N} {Adv} {V.past} {O} {W} {T} .
9 | {O} {O.was} {Adv} {V.pp} by {A} {W} {T} . => {A} {Adv} {V.past} {O} {W} {T} .
5 | {TT} , {O} {O.was} {V.pp} by {A} {W} . => {A} {V.past} {O} {W} {TT} .
5 | {TT} , {A} {Adv} {V.past} {O} {W} . => {A} {Adv} {V.past} {O} {W} {TT} .
2 | {WW} , {A} {V.past} {O} {T} . => {A} {V.past} {O} {WW} {T} .
5 | {N} , a {R} from {P} , {V.past} {O} {T} . => {N} was a {R} from {P} who {V.past} {O} {T} .
5 | {N} , {~being} a {JOB} , {Adv} {V.past} {O} {T} . => the {JOB} {N} {Adv} {V.past} {O} {T} .
4 | {N} , {~born} in {P} in {Y} , {V.past} {O} . => {N} was born in {P} in {Y} and {V.past} {O} .
2 | {N} , whose {~birthplace} was {P} , {V.past} {O} {T} . => {N} came from {P} and {V.past} {O} {T} .
4 | {B} , who had {V2.pp} {O2} , {V.past} {O} . => {B} {V2.past} {O2} and {V.past} {O} .
4 | having {V2.pp} {O2} , {A} {V.past} {O} . => {A} {V2.past} {O2} and then {V.past} {O} .
2 | {A} {V2.past} {O2} and {then} {V.past} {O} . => {A} {V2.past} {O2} and {then} {V.past} {O} .
4 | {after} {A2} had {V2.pp} {O2} , {A} {V.past} {O} . => {A} {V.past} {O} {after} {A2} {V2.past} {O2} .
3 | {A} {V.past} {O} before {A2} {V2.past} {O2} . => {A} {V.past} {O} before {A2} {V2.past} {O2} .
6 | {because} {A} {V.past} {O} , {A2} {V2.past} {O2} . => {A2} {V2.past} {O2} {because} {A} {V.past} {O} .
5 | {~although} {A} {V.past} {O} , {A2} {V2.past} {O2} . => {A} {V.past} {O} , but {A2} {V2.past} {O2} .
4 | {A} {V.past} {O} ; {~therefore} , {A2} {V2.past} {O2} . => {A} {V.past} {O} , so {A2} {V2.past} {O2} .
3 | {A} {V.past} {O} ; {~moreover} , {A2} {V2.past} {O2} . => {A} {V.past} {O} and {A2} {V2.past} {O2} .
3 | not only did {N} {V.base} {O} , but {N.he} also {V2.past} {O2} . => {N} {V.past} {O} and {V2.past} {O2} .
4 | {while} {A} {V.past} {O} , {A2} {V2.past} {O2} . => {A2} {V2.past} {O2} {while} {A} {V.past} {O} .
3 | {B} {go.past} to {P} {~purpose} {V.base} {O} {T} . => {B} {go.past} to {P} to {V.base} {O} {T} .
3 | according to {N} , {O} {O.was} {V.pp} by {A} {T} . => {N} said that {A} {V.past} {O} {T} .
3 | {N} {say.past} that {O} {O.had} been {V.pp} by {A} . => {N} {say.past} that {A} had {V.pp} {O} .
2 | {N} was of the {~opinion} that {A} had {V.pp} {O} . => {N} thought that {A} had {V.pp} {O} .
3 | it was {think.pp} by {many} {people} that {A} had {V.pp} {O} .
    => {many} {people} {think.past} that {A} had {V.pp} {O} .
3 | it was {A} that {V.past} {O} {W} {T} . => {A} {V.past} {O} {W} {T} .
2 | it was {O} that {A} {V.past} {W} {T} . => {A} {V.past} {O} {W} {T} .
3 | {A} {A.was} {~unable} to {V.base} {O} {T} . => {A} could not {V.base} {O} {T} .
3 | {A} {~succeeded} to {V.base} {O} {T} . => {A} managed to {V.base} {O} {T} .
3 | {A} {~failed} to {V.base} {O} {T} . => {A} failed to {V.base} {O} {T} .
2 | {A} {try.past} to {V.base} {O} {W} {T} . => {A} {try.past} to {V.base} {O} {W} {T} .
2 | {TT} , {A} {~attempted} to {V.base} {O} . => {A} tried to {V.base} {O} {TT} .
2 | {TT} , {A} {decide.past} to {V.base} {O} . => {A} {decide.past} to {V.base} {O} {TT} .
2 | a decision was {~taken} by {A} to {V.base} {O} {T} . => {A} decided to {V.base} {O} {T} .
3 | {TT} , {A} {promise.past} to {V.base} {O} . => {A} {promise.past} to {V.base} {O} {TT} .
3 | when asked by {N} , {A} {refuse.past} to {V.base} {O} . => {A} {refuse.past} to {V.base} {O} when asked by {N} .
4 | the {V.nom} of {O} by {A} took place {TT} . => {A} {V.past} {O} {TT} .
3 | {A} {V.past} the {X} which was {~located} in {P} {T} . => {A} {V.past} the {X} in {P} {T} .
4 | {A} {V.past} the {G} {~belonging} to {N} {T} . => {A} {V.past} {N} 's {G} {T} .
2 | there were {NUM} {RP} who {V.past} {O} {W} {T} . => {NUM} {RP} {V.past} {O} {W} {T} .
4 | {A} {~considered} the {K} to be {very} {J} . => {A} thought that the {K} was {very} {J} .
4 | {A} {V.past} the {K} , {K.which} was {very} {J} . => {A} {V.past} the {very} {J} {K} .
3 | {P} is a {L} {~located} in the {D} part of {C} . => {P} is a {L} in {D} {C} .
2 | the {L} of {P} has a population of {Q} {BIG} inhabitants . => {Q} {BIG} people live in the {L} of {P} .
2 | {P} lies at a distance of {Q} {NUM} kilometres from {P2} . => {P} is {Q} {NUM} kilometres from {P2} .
3 | {Q} {NUM} {people} {die.past} in the {H} that {hit.past} {P} {TT} .
    => {Q} {NUM} {people} {die.past} when a {H} {hit.past} {P} {TT} .
3 | {Q} {NUM} {E.p} in {P} were {damage.pp} by the {H} {T} . => the {H} {damage.past} {Q} {NUM} {E.p} in {P} {T} .
2 | {~owing} the {H} in {P} , {A} {V.past} {O} . => {A} {V.past} {O} because of the {H} in {P} .
3 | {despite} the {H} {near} {P} , {A} {V.past} {O} . => {A} {V.past} {O} {despite} the {H} {near} {P} .
3 | {during} the {war} in {C} , {A} {V.past} {O} . => {A} {V.past} {O} {during} the {war} in {C} .
3 | {Q} {NUM} {RP} lost their lives in the {battle} of {P} {TT} . => {Q} {NUM} {RP} died in the {battle} of {P} {TT} .
2 | {N} was born in {P} in {Y} and {die.past} at the age of {AGE} .
    => {N} was born in {P} in {Y} and {die.past} when {N.he} was {AGE} .
3 | at the age of {AGE} , {N} {V.past} {O} {W} . => {N} {V.past} {O} {W} when {N.he} was {AGE} .
2 | {N} was a resident of {P} for a period of {NUM} years . => {N} lived in {P} for {NUM} years .
3 | {N} {live.past} in {P} for {NUM} years before {N.he} {move.past} to {P2} .
    => {N} {live.past} in {P} for {NUM} years and then {move.past} to {P2} .
2 | {TT} , {N} {~settled} in {P} . => {N} moved to {P} {TT} .
2 | {N} earned {N.his} living as a {JOB} in {P} {TT} . => {N} worked as a {JOB} in {P} {TT} .
3 | {N} , a {JOB} , {work.past} in {P} {~from} {Y} to {Y2} . => the {JOB} {N} {work.past} in {P} from {Y} to {Y2} .
2 | {N} was joined in {~marriage} to {M} in {P} {TT} . => {N} married {M} in {P} {TT} .
3 | a {medal} was {give.pp} to {B} by the {king} {TT} . => the {king} {give.past} {B} a {medal} {TT} .
3 | {TT} , the number of {RP} in {P} {rise.past} from {NUM} to {NUM2} .
    => the number of {RP} in {P} {rise.past} from {NUM} to {NUM2} {TT} .
3 | {N} , being {~dissatisfied} with {N.his} {job} , {move.past} to {P} {TT} .
    => {N} did not like {N.his} {job} and {move.past} to {P} {TT} .
3 | for {~unknown} {reason.p} , {A} {V.past} {O} . => {A} {V.past} {O} for unknown {reason.p} .
"""

# Wordy source phrases; the template's target says the same in one plain way.
CUES: dict[str, str] = {
    "being": "|by profession|by trade",
    "born": "born|who was born|who had been born",
    "birthplace": "birthplace|native town|place of birth",
    "although": "although|even though|notwithstanding the fact that|in spite of the fact that",
    "therefore": "therefore|consequently|as a consequence|for this reason",
    "moreover": "moreover|furthermore|in addition|at the same time",
    "purpose": "in order to|so as to",
    "opinion": "opinion|view|conviction",
    "unable": "unable|not able|not in a position",
    "succeeded": "found a way|found the means|proved able",
    "failed": "did not manage|found no way|proved unable",
    "attempted": "made an attempt|made an effort",
    "taken": "taken|made|reached",
    "located": "located|situated",
    "belonging": "belonging|that belonged",
    "considered": "considered|judged|held|deemed",
    "owing": "owing to|on account of|as a result of|as a consequence of",
    "settled": "took up residence|settled down|made a new home",
    "from": "during the period from|in the years from",
    "marriage": "marriage|matrimony|wedlock",
    "dissatisfied": "dissatisfied|unhappy|displeased|discontented",
    "unknown": "unknown|unclear|undisclosed|unspecified",
    "padding": "it should be noted that|as a matter of fact ,|it is worth mentioning that|there is no doubt that"
    "|it goes without saying that|needless to say ,",
    "filler": "in fact|indeed|in effect|of course|actually",
}

NOMINALS: dict[str, str] = {
    "build": "construction",
    "destroy": "destruction",
    "repair": "restoration",
    "buy": "acquisition",
    "finish": "completion",
    "accept": "approval",
    "reject": "rejection",
    "cancel": "cancellation",
    "announce": "announcement",
    "find": "discovery",
    "study": "investigation",
    "explain": "explanation",
    "invent": "invention",
    "publish": "publication",
    "sell": "sale",
    "close": "closure",
    "make": "production",
    "start": "establishment",
    "improve": "improvement",
    "choose": "selection",
    "punish": "punishment",
    "explore": "exploration",
}


class Domain(NamedTuple):
    """A field of life: who acts in it, what they do to what, and how."""

    roles: tuple[str, ...]
    groups: tuple[str, ...]
    frames: tuple[tuple[str, str], ...]  # (verb set, object noun set)
    adverbs: tuple[str, ...]


# roles | groups | adverbs | verb: objects; ...
_DOMAINS = """
worker engineer architect | company | quickly carefully slowly
    | build: house monument road wall bridge castle harbour; destroy: house wall bridge monument;
    repair: house road wall bridge castle harbour monument; strengthen: wall bridge castle; buy: house castle;
    finish: road bridge monument wall
lawmaker politician king minister | government parliament | finally suddenly openly secretly
    | accept: law proposal agreement tax; reject: law proposal agreement tax; cancel: law tax agreement rule;
    change: law tax rule proposal; announce: tax law rule agreement; support: law proposal tax agreement;
    criticise: law tax proposal; delay: proposal law tax
scientist professor expert | | carefully finally soon
    | find: substance method mistake illness; study: substance illness; prove: theory; explain: theory method mistake;
    test: theory method substance; invent: method machine; improve: method; criticise: theory method
doctor nurse | | quickly carefully gladly
    | cure: patient child; help: patient child; calm: patient child; save: patient child; warn: patient;
    study: illness; use: method machine; feed: patient child
general soldier rebel | army | bravely suddenly secretly
    | attack: town castle ship enemy; protect: town castle; take: town castle ship; defeat: enemy;
    leave: town castle ship; surround: town castle enemy; warn: enemy town
writer critic | | finally gladly openly
    | write: book poem story; publish: book poem story; praise: book poem story; read: book poem letter;
    mock: book poem story; finish: book poem story; copy: story poem
painter singer | | soon openly gladly
    | show: picture; sell: picture; praise: picture song; copy: picture; finish: picture; learn: song poem; buy: picture
player coach | team | finally gladly suddenly
    | beat: rival team; win: match prize tournament; watch: match tournament; delay: match tournament;
    praise: rival team; avoid: rival
owner merchant manager | company | secretly suddenly openly
    | buy: shop factory car machine; sell: shop car machine; make: car machine; start: company shop factory;
    close: shop factory; hire: employee engineer lawyer; improve: machine factory; use: machine car
teacher | | carefully gladly openly
    | teach: student subject; plan: lesson exam; praise: student; criticise: student exam school; help: student;
    start: school; choose: subject; improve: lesson
student | | soon finally quickly
    | finish: exam lesson; learn: subject lesson; choose: subject school; love: teacher subject; avoid: lesson exam
judge lawyer policeman | | bravely openly quickly
    | question: witness criminal thief prisoner; free: prisoner thief; punish: criminal thief; save: witness;
    find: document jewel; study: document; catch: thief criminal; chase: thief criminal
thief criminal | | secretly quickly suddenly
    | steal: jewel document car horse picture; hide: jewel document; trick: policeman witness owner; sell: jewel;
    attack: policeman witness; avoid: policeman
farmer | | gladly slowly finally
    | grow: crop; gather: crop; feed: horse animal bird; buy: field horse; sell: crop horse field;
    see: animal bird; leave: field village
hunter fisherman | | suddenly slowly bravely
    | chase: animal bird horse; kill: animal bird; see: animal bird horse; cross: river forest field; avoid: animal
explorer sailor pilot | | slowly bravely finally
    | cross: desert river region mountain; explore: cave island region desert forest; map: island region river cave;
    describe: island region animal; avoid: island desert; climb: mountain wall; find: island cave river;
    leave: island region
cook | | quickly carefully soon
    | prepare: meal soup cake; taste: soup meal cake; sell: cake; improve: meal soup; finish: cake; buy: crop
guest neighbour friend | | openly secretly soon
    | plan: party wedding meal; celebrate: wedding; decorate: room garden; love: garden meal party; buy: gift cake;
    eat: cake soup meal;
    improve: garden; leave: party wedding room
"""


def _parse_domains() -> tuple[Domain, ...]:
    """Read `_DOMAINS`: three bars a domain."""
    fields = [field.strip() for field in _DOMAINS.replace("\n    ", " ").replace("\n", "|").strip("|").split("|")]
    domains = []
    for roles, groups, adverbs, table in zip(*[iter(fields)] * 4, strict=True):
        frames: list[tuple[str, str]] = []
        for entry in table.split(";"):
            verb, objects = entry.split(":")
            frames.extend((verb.strip(), noun) for noun in objects.split())
        domains.append(Domain(tuple(roles.split()), tuple(groups.split()), tuple(frames), tuple(adverbs.split())))
    return tuple(domains)


def _parse_templates() -> tuple[tuple[int, str, str], ...]:
    """Read `TEMPLATES` into (weight, source, target)."""
    parsed = []
    for line in TEMPLATES.replace("\n    ", " ").strip().splitlines():
        weight, _, patterns = line.partition("|")
        source, _, target = patterns.partition("=>")
        parsed.append((int(weight), source.strip(), target.strip()))
    return tuple(parsed)


# Nouns that are never plural here, that stay in one place, that someone owns, and those of things close to disasters.
SINGULAR_ONLY = frozenset("king government parliament army".split())
NO_PROFESSION = SINGULAR_ONLY | frozenset("student owner rebel criminal guest neighbour friend".split())
IMMOVABLE = tuple("house monument road wall bridge harbour castle shop factory school garden river cave field".split())
OWNABLE = tuple("house ship book picture car machine shop horse jewel document garden factory".split())
ENDANGERED = tuple("house shop car ship castle bridge factory school field garden village".split())
HAZARDS = tuple("storm fire flood earthquake".split())

DOMAINS: tuple[Domain, ...] = _parse_domains()
PARSED_TEMPLATES: tuple[tuple[int, str, str], ...] = _parse_templates()
PEOPLE = frozenset(role for domain in DOMAINS for role in domain.roles) | frozenset(
    "patient child enemy rival employee prisoner witness".split()
)
