package report

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unit says how a value is written.
type unit int

const (
	plain   unit = iota // as it is
	inBytes             // in KB, of 1000 bytes
)

// text is a value with its significant digits, and the unit.
func (u unit) text(value float64) string {
	if u == inBytes {
		return number(value/1000) + " KB"
	}
	return number(value)
}

// digits is a value with n digits after the decimal point, and the value that this text has.
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

// number is a value with three significant digits, or with all digits before the decimal point, without zeros at the end of the fraction.
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

// ratio is a quotient with two digits after the decimal point.
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

// paragraph is text in lines of at most 158 characters. A longer word has a line of its own.
func paragraph(text string) string {
	const width = 158
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, line), "\n")
}
