# From lines with a word and its tag, and a word list: features of words, a line each. The m most frequent tags are the
# features; that of the word is 1, the others are 0. Words without one of these tags have no line. A word that the tags
# lack is looked up in lower case.
#   awk -v m=30 -f tags.awk words-and-tags words
FNR == NR { if (!/^;;;/ && NF > 1) tag[$1] = $2; next }
{
    t = $1 in tag ? tag[$1] : tolower($1) in tag ? tag[tolower($1)] : ""
    if (t != "") { word[++n] = $1; of[n] = t; count[t]++ }
}
END {
    for (k = 1; k <= m; k++) {
        best = ""
        for (t in count)
            if (best == "" || count[t] > count[best] || (count[t] == count[best] && t < best)) best = t
        if (best != "") number[best] = k
        delete count[best]
    }
    for (i = 1; i <= n; i++)
        if (of[i] in number) {
            printf "%s", word[i]
            for (k = 1; k <= m; k++) printf " %d", k == number[of[i]]
            print ""
        }
}
