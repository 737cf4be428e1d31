"""English sentences and their French translations, made by a small grammar: python3 pairs.py NUMBER SEED [LONGEST].

A pair a line, with a tab between its sides. Adjectives move behind their nouns, all but a few; articles, adjectives and
participles agree with the noun; numbers and dates change their order and their form. With LONGEST, sentences have up to
so many words: clauses are joined by conjunctions, and nouns have prepositional phrases. Both sides have equally many
words.
"""

import random
import sys

# noun: (French, feminine)
NOUNS = {
    "dog": ("chien", 0), "house": ("maison", 1), "car": ("voiture", 1), "book": ("livre", 0), "table": ("table", 1),
    "garden": ("jardin", 0), "flower": ("fleur", 1), "boat": ("bateau", 0), "door": ("porte", 1), "hat": ("chapeau", 0),
    "shirt": ("chemise", 1), "wall": ("mur", 0), "street": ("rue", 1), "bridge": ("pont", 0), "cow": ("vache", 1),
    "horse": ("cheval", 0), "lamp": ("lampe", 1), "cat": ("chat", 0),
}  # fmt: skip
PLURAL = {"bateau": "bateaux", "chapeau": "chapeaux", "cheval": "chevaux"}
# adjective: (masculine, feminine, before the noun)
ADJECTIVES = {
    "red": ("rouge", "rouge", 0), "green": ("vert", "verte", 0), "blue": ("bleu", "bleue", 0),
    "grey": ("gris", "grise", 0), "quiet": ("calme", "calme", 0), "famous": ("célèbre", "célèbre", 0),
    "heavy": ("lourd", "lourde", 0), "open": ("ouvert", "ouverte", 0), "tall": ("grand", "grande", 1),
    "small": ("petit", "petite", 1), "pretty": ("joli", "jolie", 1), "bad": ("mauvais", "mauvaise", 1),
}  # fmt: skip
VERBS = {
    "sees": ("voit", "voient"), "finds": ("trouve", "trouvent"), "buys": ("achète", "achètent"),
    "sells": ("vend", "vendent"), "paints": ("peint", "peignent"), "likes": ("aime", "aiment"),
}  # fmt: skip
PLURAL_VERBS = {"sees": "see", "finds": "find", "buys": "buy", "sells": "sell", "paints": "paint", "likes": "like"}
NUMBERS = {
    "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six", "seven": "sept", "nine": "neuf",
    "ten": "dix", "twenty": "vingt", "seventy": "soixante-dix", "eighty": "quatre-vingts", "ninety": "quatre-vingt-dix",
}  # fmt: skip
MONTHS = {
    "january": "janvier", "march": "mars", "may": "mai", "june": "juin", "july": "juillet", "september": "septembre",
    "october": "octobre", "december": "décembre",
}  # fmt: skip
DAYS = {"monday": "lundi", "tuesday": "mardi", "friday": "vendredi", "sunday": "dimanche"}
PREPOSITIONS = {"behind": "derrière", "under": "sous", "with": "avec", "against": "contre"}
CONJUNCTIONS = {"and": "et", "but": "mais", "when": "quand", "or": "ou"}
PHRASES = 0.3  # the share of the nouns of long sentences that have a prepositional phrase
SHORTEST = 6  # words of the shortest sentence


def plural(word):
    return word if word.endswith(("s", "x")) else PLURAL.get(word, word + "s")


def noun_phrase(choose):
    """English words, French words, whether they are plural."""
    noun = choose(list(NOUNS))
    french, feminine = NOUNS[noun]
    adjectives = random.sample(list(ADJECTIVES), random.choices((0, 1, 2), (4, 5, 2))[0])
    # two adjectives of the same side would leave their order open
    if len({ADJECTIVES[a][2] for a in adjectives}) < len(adjectives):
        adjectives = adjectives[:1]
    kind = random.choices(("the", "a", "these", "number"), (4, 4, 2, 2))[0]
    many = kind in ("these", "number")
    number = choose(list(NUMBERS))
    article = {"the": ("le", "la"), "a": ("un", "une"), "these": ("ces", "ces")}
    first = NUMBERS[number] if kind == "number" else article[kind][feminine]
    form = plural if many else str
    before = [form(ADJECTIVES[a][feminine]) for a in adjectives if ADJECTIVES[a][2]]
    after = [form(ADJECTIVES[a][feminine]) for a in adjectives if not ADJECTIVES[a][2]]
    english = [number if kind == "number" else kind, *adjectives, noun + "s" if many else noun]
    return english, [first, *before, form(french), *after], many


def date(choose):
    """A date behind its sentence: the month and the day change places."""
    day, month = random.randrange(2, 29), choose(list(MONTHS))
    if random.random() < 0.3:
        name = choose(list(DAYS))
        return ["on", name, month, str(day)], ["le", DAYS[name], str(day), MONTHS[month]]
    return ["on", month, str(day)], ["le", str(day), MONTHS[month]]


def noun_phrases(choose, share):
    """A noun phrase, with a prepositional phrase behind a share of them; results as in `noun_phrase`."""
    english, french, many = noun_phrase(choose)
    if share and random.random() < share:
        preposition = choose(list(PREPOSITIONS))
        place, lieu, _ = noun_phrase(choose)
        english, french = [*english, preposition, *place], [*french, PREPOSITIONS[preposition], *lieu]
    return english, french, many


def clause(share=0.0):
    """English words, French words; share: of the noun phrases that have a prepositional phrase."""
    choose = random.choice
    subject, sujet, many = noun_phrases(choose, share)
    verb = choose(list(VERBS))
    seen_object, objet, _ = noun_phrases(choose, share)
    english = [*subject, PLURAL_VERBS[verb] if many else verb, *seen_object]
    french = [*sujet, VERBS[verb][many], *objet]
    if random.random() < 0.4:
        when, quand = date(choose)
        english, french = english + when, french + quand
    return english, french


def clauses(longest):
    """As many clauses as fit into a random number of words, at most `longest`, with the full stop."""
    room, english, french = random.randint(SHORTEST, longest), [], []
    while True:
        more, suite = clause(PHRASES)
        if english:
            conjunction = random.choice(list(CONJUNCTIONS))
            more, suite = [conjunction, *more], [CONJUNCTIONS[conjunction], *suite]
        if len(english) + len(more) < room:
            english, french = english + more, french + suite
        elif english:
            return english, french


def pair(longest):
    english, french = clauses(longest) if longest else clause()
    return " ".join([*english, "."]), " ".join([*french, "."])


number, seed, *longest = map(int, sys.argv[1:])
random.seed(seed)
pairs = {}
while len(pairs) < number:
    english, french = pair(*longest or [0])
    pairs[english] = french
sys.stdout.reconfigure(encoding="utf-8")
for english, french in pairs.items():
    print(english, french, sep="\t")
