"""The scripts that run.py runs."""

# name, folder of the repository in which it runs, command, files to compare
SCRIPTS = [
    (
        "ami_train_lms.sh",
        "kaldi/egs/ami/s5b",
        "local/ami_train_lms.sh --order 3 text dev lexicon lm",
        "lm/ami.o3g.kn.gz",
    ),
    (
        "swbd1_train_lms.sh",
        "kaldi/egs/fisher_swbd/s5",
        "local/swbd1_train_lms.sh --fisher fisher long lexicon lm",
        "lm/sw1.o3g.kn.gz lm/sw1_fsh_mix.weights lm/sw1_fsh.o3g.kn.gz",
    ),
    (
        "train_lms_srilm.sh",
        "kaldi/egs/babel/s5d",
        "local/train_lms_srilm.sh --oov-symbol '<unk>' --words-file lexicon --train-text text --dev-text dev . lm",
        "lm/perplexities.txt lm/lm.gz lm/4gram.kn0223.gz lm/3gram.gt012.gz",
    ),
    ("heroico prepare_lm.sh", "kaldi/egs/heroico/s5", "local/prepare_lm.sh plain", "data/local/lm/trigram.arpa.gz"),
    (
        "mandarin_mix_lm.sh",
        "kaldi/egs/mandarin_bn_bc/s5",
        "for i in 1 2; do mkdir -p $i; sed -n ${i}~2p plain | "
        "ngram-count -order 4 -unk -kndiscount -interpolate -text - -lm $i/srilm.o4g.kn.gz; done; "
        "mkdir d; cp dev-plain d/text; "
        "bash local/mandarin_mix_lm.sh --oov-sym '<UNK>' --prune-thres 1e-7 1 2 mix d",
        "mix/best-mix.ppl mix/srilm.o4g.kn.gz",
    ),
    (
        "format_lm_sri.sh",
        "kaldi/egs/wsj/s5",
        "ngram-count -order 3 -kndiscount -interpolate -text plain -lm lm.gz; head -n 900 lexicon > lang/words.txt; "
        "printf '#!/bin/sh\\ncat > G.arpa\\n' > arpa2fst; chmod +x arpa2fst; "
        "printf '#!/bin/sh\\n' > fstisstochastic; chmod +x fstisstochastic; export PATH=$PWD:$PATH; "
        "bash utils/format_lm_sri.sh --srilm-opts '-subset -prune-lowprobs -unk -tolower' lang lm.gz out",
        "G.arpa",
    ),
    (
        "interpolate-lm.perl",
        "mosesdecoder/scripts/ems/support",
        "for i in 1 2 3; do sed -n ${i}~3p plain | ngram-count -order 5 -unk -kndiscount -interpolate -text - "
        "-lm $i.lm; done; perl local/interpolate-lm.perl --tuning dev-plain --name mixed --lm 1.lm,2.lm,3.lm "
        "--srilm $(dirname $(command -v ngram)) --tempdir .",
        "mixed",
    ),
    (
        "train_arpa_with_kenlm.sh's lines",
        "kaldi/egs/wsj/s5",
        "lmplz --order 4 --prune 0 0 1 --limit_vocab_file <(cut -d' ' -f1 lexicon) --interpolate_unigrams "
        "< plain > 4.arpa; "
        "build_binary trie 4.arpa 4.bin; query -v summary 4.bin < dev-plain > ppl",
        "4.arpa ppl",
    ),
    (
        "librispeech train_lm.sh",
        "kaldi/egs/librispeech/s5",
        "mkdir -p texts/corpus lm; gzip -c plain > lm/librispeech-lm-norm.txt.gz; "
        "cut -d' ' -f1 lexicon > lm/librispeech-vocab.txt; bash local/lm/train_lm.sh --stage 4 texts tmp norm lm",
        "lm/lm_tglarge.arpa.gz lm/lm_tgsmall.arpa.gz lm/lm_tgmed.arpa.gz lm/lm_fglarge.arpa.gz",
    ),
    (
        "gigaspeech train_lm.sh",
        "kaldi/egs/gigaspeech/s5",
        "bash local/lm/train_lm.sh --cmd utils/parallel/run.pl plain lm",
        "lm/lm_4gram.arpa.gz",
    ),
    (
        "aishell's lines",
        "kaldi/egs/aishell/s5",
        "ngram-count -text plain -order 3 -limit-vocab -vocab lexicon.words -unk -map-unk '<SPOKEN_NOISE>' "
        "-kndiscount -interpolate -lm srilm.o3g.kn.gz; ngram -lm srilm.o3g.kn.gz -ppl dev-plain > ppl",
        "srilm.o3g.kn.gz ppl",
    ),
    (
        "commonvoice prepare_lm.sh",
        "kaldi/egs/commonvoice/s5",
        "mkdir -p data/valid_train; cp text data/valid_train; bash local/prepare_lm.sh",
        "data/local/lm.gz",
    ),
    (
        "chime4_train_lms.sh",
        "kaldi/egs/chime4/s5_1ch",
        "w=c/data/WSJ0/wsj0/doc/lng_modl/lm_train/np_data; mkdir -p $w/87 $w/88 $w/89 c/data/transcriptions data/lang "
        "data/local/nist_lm; for y in 87 88 89; do awk NR%3==$y%3 plain | gzip > $w/$y/a.z; done; tr a-z A-Z < plain | "
        "ngram-count -text - -order 3 -kndiscount -interpolate -lm data/local/nist_lm/lm_tgpr_5k.arpa.gz; "
        "for x in real simu; do tr a-z A-Z < dev | tee c/data/transcriptions/dt05_$x.trn_all > data/lang/words.txt; "
        "done; printf '#!/bin/sh\\ncat > /dev/null\\n' > arpa2fst; chmod +x arpa2fst; export PATH=$PWD:$PATH; "
        "rm utils/validate_lang.pl; cp arpa2fst utils/validate_lang.pl; bash local/chime4_train_lms.sh c > said; "
        "grep -A1 sentences said > ppl",
        "data/local/local_lm/lm_5gkn_5k.arpa.gz ppl",
    ),
    (
        "chime5 train_lms_srilm.sh",
        "kaldi/egs/chime5/s5",
        "LIBLBFGS=. bash local/train_lms_srilm.sh --oov-symbol '<unk>' --words-file lexicon --train-text text "
        "--dev-text dev . lm",
        "lm/perplexities.txt lm/3gram.me.gz lm/4gram.me.gz lm/4gram.kn0222.gz lm/4gram.gt0111.gz",
    ),
    (
        "gale_arabic prepare_lm.sh",
        "kaldi/egs/gale_arabic/s5b",
        "mkdir -p data/train data/local/dict; cp text data/train; head -n 900 lexicon > data/local/dict/lexicon.txt; "
        "bash local/prepare_lm.sh",
        "data/local/lm/lm.gz",
    ),
    (
        "gale_arabic prepare_lm_subword.sh",
        "kaldi/egs/gale_arabic/s5c",
        "mkdir -p data/train data/test data/local/dict; cp text data/train; cp dev data/test/text; "
        "cp lexicon data/local/dict/lexicon.txt; bash local/prepare_lm_subword.sh > said; tail -n 3 said > ppl",
        "data/local/lm/lm.gz ppl",
    ),
    (
        "swbd s5c swbd1_train_lms.sh",
        "kaldi/egs/swbd/s5c",
        "bash local/swbd1_train_lms.sh long lexicon lm fisher > said; grep -v Interp said > ppl",
        "lm/sw1.o4g.kn.gz lm/sw1_fsh_mix.4gram.weights lm/sw1_fsh.o4g.kn.gz ppl",
    ),
    (
        "wenetspeech_train_lm.sh",
        "kaldi/egs/wenetspeech/s5",
        "bash local/wenetspeech_train_lm.sh --heldout-set 300 lexicon text lm > said; grep -A1 sentences said > ppl",
        "lm/lm_3gram.arpa.gz ppl",
    ),
    (
        "vystadial create_LMs.sh",
        "kaldi/egs/vystadial_en/s5",
        "mkdir loc; DICTIONARY=build bash local/create_LMs.sh loc text dev lm 'build2 build3'",
        "lm/build2 lm/build3",
    ),
    (
        "tunisian_msa prepare_lm.sh",
        "kaldi/egs/tunisian_msa/s5",
        "mkdir tools; touch tools/env.sh; KALDI_ROOT=$PWD bash local/prepare_lm.sh plain",
        "data/local/lm/trigram.arpa.gz",
    ),
    (
        "i6_core srilm.py",
        "i6_core",
        "python3 clients/i6.py source/lm/srilm.py plain dev-plain lexicon.words",
        "count/counts count/discounts a/ngram.lm b/ngram.lm mixed.gz pruned/pruned.lm.gz variables",
    ),
    (
        "i6_core's lines for lmplz",
        "i6_core",
        "zcat -f plain dev-plain | lmplz -o 4 --interpolate_unigrams False -S 4G -T . --prune 0 0 1 1 "
        "--limit_vocab_file lexicon.words --discount_fallback 0.5 1.0 1.5 | gzip > lm.gz; "
        "build_binary lm.gz lm.bin; query -v summary lm.bin < dev-plain > ppl",
        "lm.gz ppl",
    ),
    (
        "generate_lm.py",
        "DeepSpeech",
        "echo 'progressbar = list' > progressbar.py; PYTHONPATH=. python3 source/data/lm/generate_lm.py "
        "--input_txt plain --output_dir . --top_k 500 --kenlm_bins programs --arpa_order 5 --max_arpa_memory 50% "
        "--arpa_prune '0|0|1' --binary_a_bits 255 --binary_q_bits 8 --binary_type trie --discount_fallback; "
        "query -v summary lm.binary < dev-plain > ppl",
        "ppl",
    ),
    (
        "cc_net's lines",
        "cc_net",
        "lmplz --order=5 --memory=1G --temp_prefix=. --text=plain --arpa=lm.arpa --vocab_estimate=65000 "
        "--discount_fallback; build_binary lm.arpa lm.arpa.bin; query -v summary lm.arpa.bin < dev-plain > ppl",
        "lm.arpa ppl",
    ),
    (
        "wsj train_ngram_lms.sh",
        "wav2letter/recipes/lexicon_free/wsj",
        "d=model/decoder; mkdir -p data/text $d; cp plain data/text/lm.txt; cp dev-plain $d/word_lm_data.nov93dev; "
        "for f in train nov93dev; do head -n 900 plain | sed 's/ /|/g; s/./& /g' > $d/char_lm_data.$f; done; "
        "sed -i 's/50G/500M/' local/train_ngram_lms.sh; bash local/train_ngram_lms.sh data model $PWD/programs; "
        "mv $d/ngram_models made; tail -n 4 made/*.nov93dev | grep -v == > ppl",
        "made/lm_wsj_kenlm_word_4g.arpa made/lm_wsj_kenlm_char_20g_pruned.arpa ppl",
    ),
    (
        "prepare_text.sh's lines",
        "fairseq/examples/wav2vec/unsupervised/scripts",
        "lmplz -o 4 < plain --discount_fallback --prune 0 0 0 3 > 4.arpa; build_binary 4.arpa 4.bin; "
        "lmplz -o 6 < plain --discount_fallback > 6.arpa; build_binary 6.arpa 6.bin; query 6.bin < dev-plain > ppl",
        "4.arpa 6.arpa ppl",
    ),
]
