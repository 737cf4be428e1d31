# dictionary.awk SOURCE TARGET ALIGNMENT: for each source word that of the words which look at it with the greatest Dice
# coefficient, 2 n(s, t) / (n(s) + n(t)); of equal ones the first in order.
FILENAME == ARGV[1] { source[FNR] = $0; for (i = 1; i <= NF; i++) s[$i]++; next }
FILENAME == ARGV[2] { target[FNR] = $0; for (i = 1; i <= NF; i++) t[$i]++; next }
{
    split(source[FNR], a, " "); split(target[FNR], b, " ")
    for (i = 1; i <= NF; i++) { split($i, at, "-"); n[a[at[1] + 1] " " b[at[2] + 1]]++ }
}
END {
    for (pair in n) {
        split(pair, w, " "); dice = 2 * n[pair] / (s[w[1]] + t[w[2]])
        if (dice > best[w[1]] || dice == best[w[1]] && w[2] < found[w[1]]) { best[w[1]] = dice; found[w[1]] = w[2] }
    }
    for (word in found) print word, found[word]
}
