package report

import (
	"math"
	"strconv"
	"strings"
)

// unit says how a value is written.
type unit int

const (
	plain   unit = iota // as it is
	inBytes             // in KB, of 1000 bytes
)

// text is a value with the digits that say something.
func (u unit) text(value float64) string {
	if u == inBytes {
		return number(value/1000) + " KB"
	}
	return number(value)
}

// digits is a value with so many digits behind the point, and the value that this text says.
func (u unit) digits(value float64, n int) (string, float64) {
	scale, suffix := 1.0, ""
	if u == inBytes {
		scale, suffix = 1000, " KB"
	}
	if value == math.Trunc(value) && u == plain {
		n = 0
	}
	text := strconv.FormatFloat(value/scale, 'f', n, 64)
	shown, _ := strconv.ParseFloat(text, 64) // its own text
	return text + suffix, shown * scale
}

// number is a value with three digits or all those before the point, and without noughts at its end.
func number(value float64) string {
	n := 3
	switch size := math.Abs(value); {
	case size >= 100:
		n = 0
	case size >= 10:
		n = 1
	case size >= 1:
		n = 2
	}
	text := strconv.FormatFloat(value, 'f', n, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		return "0"
	}
	return text
}

// ratio is a quotient, with two digits behind the point.
func ratio(value float64) string { return strconv.FormatFloat(value, 'f', 2, 64) }

// table is a table of Markdown.
func table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("| ")
		b.WriteString(strings.Join(cells, " | "))
		b.WriteString(" |\n")
	}
	line(head)
	b.WriteString(strings.Repeat("|---", len(head)))
	b.WriteString("|\n")
	for _, r := range rows {
		line(r)
	}
	return b.String()
}
