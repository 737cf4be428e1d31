"""The jobs of lmtk, for commands and for Python alike.

A job is a frozen record. Its fields have the names of the command's options, with "_" for "-", and the same defaults.
It is checked where it is built: a table of rules stands beside the fields, and `rules.check` reads the table. One
function runs the job: it opens files, calls the layers below, writes the outputs that the record names, and returns
what it has made. A command makes the record from its options. `lmtk.functions` makes it from a function's arguments.

| command | module | job | function |
|---|---|---|---|
| count-of | indexing | CountOfJob | print_counts |
| features | features | FeaturesJob | show_features |
| fst | transducing | FstJob | write_fst |
| index | indexing | IndexJob | write_index |
| info | describing | DescribeJob | describe_files |
| mix | mixing | MixJob | mix |
| next | following | NextJob | print_next_words |
| ngram | editing, with changing, loglinear, wordwise and scoring | EditJob | edit |
| ngram-class | classing | ClassJob | sort_words |
| ngram-count | estimating, with counting, smoothing, pruning and sources | EstimateJob | estimate |
| ngram-interp | interpolating | InterpolateJob | interpolate |
| nmt-train | translation_training | TrainTranslationJob | train |
| normalize | normalizing | NormalizeJob | write_normalized |
| nplm-train | training | TrainJob | train |
| ppl | scoring, with documents | ScoreJob | score |
| rescore | rescoring | RescoreJob | rescore |
| sample | following | SampleJob | sample |
| select | selecting | SelectJob | select |
| surprisal | measuring | SurprisalJob | write_surprisal |
| translate | translating | TranslateJob | translate |
| vocab | vocabulary | VocabularyJob | write_vocabulary |

The other modules serve several jobs: rules, bar, progress, texts, pruning, kenlm_files and model_files.
"""
