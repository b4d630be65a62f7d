package main

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/client"
)

// tracer writes traces; doc.go has their format.
type tracer struct {
	console *console
	whole   bool // event ids are not shortened
	start   time.Time
}

func newTracer(c *console, whole bool) *tracer {
	return &tracer{console: c, whole: whole, start: time.Now()}
}

// field is a field of a line. It is left out if its value is "".
type field struct{ name, value string }

// say writes a line of the command's own.
func (t *tracer) say(kind string, fields ...field) {
	t.console.line(t.text(time.Now(), kind, fields...))
}

// event writes a line about the wire. It is Config.Trace of package client.
func (t *tracer) event(e client.TraceEvent) {
	stream, method, id := field{"stream", e.Stream}, field{"method", e.Method}, field{"id", t.id(e.EventID)}
	fields := []field{stream, method, id}
	if e.Status != 0 {
		fields = append(fields, field{"status", strconv.Itoa(e.Status)})
	}
	switch e.Kind {
	case client.TraceMessage:
		fields = append(fields, field{"bytes", strconv.Itoa(e.Bytes)})
	case client.TraceTask:
		fields = append(fields, field{"state", e.State})
	case client.TraceRetry, client.TraceWait:
		fields = append(fields, field{"wait", seconds(e.Wait)})
	}
	if e.Err != nil {
		fields = append(fields, field{"error", strings.ReplaceAll(e.Err.Error(), "\n", "; ")})
	}
	t.console.line(t.text(e.Time, string(e.Kind), fields...))
}

func (t *tracer) text(at time.Time, kind string, fields ...field) string {
	words := []string{"trace", "+" + seconds(at.Sub(t.start)), kind}
	for _, f := range fields {
		if f.value != "" {
			words = append(words, f.name+"="+value(f.value))
		}
	}
	return strings.Join(words, " ")
}

func (t *tracer) id(id string) string {
	if id == "" || t.whole {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:4])
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// value is text, quoted if it is more than one word.
func value(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' || r == '"' || isControl(r) }) {
		return strconv.Quote(text)
	}
	return text
}
