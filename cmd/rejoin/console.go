package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/term"
)

// console is stderr: lines, and on a terminal one more at the end that is written over, for progress.
type console struct {
	mu    sync.Mutex
	w     io.Writer
	width func() int // 0: not a terminal
	shown bool       // there is a line of progress
}

func newConsole(f *os.File) *console {
	return &console{w: f, width: func() int {
		if !term.IsTerminal(int(f.Fd())) {
			return 0
		}
		width, _, err := term.GetSize(int(f.Fd()))
		if err != nil || width < 20 {
			return 80
		}
		return width
	}}
}

const eraseLine = "\r\x1b[K"

// line writes a line. It may have text of servers in it, so control characters become blanks.
func (c *console) line(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	fmt.Fprintln(c.w, printable(text))
}

// progress writes a line that the next line replaces. If stderr is not a terminal, the line stays.
func (c *console) progress(text string) {
	width := c.width()
	if width == 0 {
		c.line("progress " + text)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := []rune(printable(text)); len(r) >= width {
		text = string(r[:width-1])
	} else {
		text = string(r)
	}
	fmt.Fprint(c.w, eraseLine+text)
	c.shown = true
}

// clear removes the line of progress.
func (c *console) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
}

func (c *console) erase() {
	if c.shown {
		fmt.Fprint(c.w, eraseLine)
		c.shown = false
	}
}

// printable is text with blanks for control characters and ends of lines.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, text)
}

// isControl reports control characters but tabs, and characters that change the order of others.
func isControl(r rune) bool {
	return unicode.Is(unicode.Cc, r) && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}
