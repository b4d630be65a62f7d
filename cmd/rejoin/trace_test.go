package main_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// The format is what bug reports bring. Tools that read it must go on doing so.
func TestTheTraceOfAPolledCall(t *testing.T) {
	s := serve(t)
	open := s.hold()
	p := start(t, "call", s.url, "job", "--trace", "--era", "legacy")
	s.progress(1)
	s.do(func(h *rejoin.Handle) { require.NoError(t, h.CloseStream(20*time.Millisecond)) })
	p.stderr.await(t, " poll ")
	s.progress(2) // while its poll is on the way
	s.finish()
	open()
	require.Equal(t, 0, p.exit())
	require.Equal(t, `trace +T start rejoin=V go=V os=V
trace +T post stream=1 method=initialize
trace +T head stream=1 status=200
trace +T event stream=1 bytes=N
trace +T close stream=1
trace +T post method=notifications/initialized
trace +T head status=202
trace +T session protocol=2025-11-25
trace +T post stream=2 method=tools/call
trace +T head stream=2 status=200
trace +T retry stream=2 wait=T
trace +T primer stream=2 id=A
trace +T event stream=2 method=notifications/progress id=B bytes=N
trace +T retry stream=2 wait=T
trace +T close stream=2
trace +T wait stream=2 wait=T
trace +T poll stream=2 id=B
trace +T head stream=2 status=200
trace +T retry stream=2 wait=T
trace +T primer stream=2 id=C
trace +T event stream=2 method=notifications/progress id=D bytes=N
trace +T event stream=2 id=E bytes=N
trace +T close stream=2
trace +T delete
trace +T head status=204
`, anonymous(p.stderr.String()))
}

func TestATraceHoldsNoSecrets(t *testing.T) {
	s := serve(t)
	p := start(t, "call", s.url, "job", "--trace", "-H", "Authorization: Bearer hush", "--arg", "password=hush")
	s.progress(1)
	s.finish()
	require.Equal(t, 0, p.exit())
	session := (<-s.opened).ID()
	require.NotEmpty(t, session)
	require.NotContains(t, p.stderr.String(), session)
	require.NotContains(t, p.stderr.String(), "hush")
	require.NotContains(t, p.stderr.String(), s.url)
	require.Regexp(t, `primer stream=2 id=[0-9a-f]{8}\n`, p.stderr.String())

	s = serve(t)
	p = start(t, "call", s.url, "job", "--trace-ids")
	s.progress(1)
	s.finish()
	require.Equal(t, 0, p.exit())
	require.Regexp(t, `primer stream=2 id=[\w-]{22}\.0\S*\n`, p.stderr.String(), "on request they are written out")
}

var (
	times    = regexp.MustCompile(`\+\d+\.\d{3} | wait=\d+\.\d{3}`)
	ids      = regexp.MustCompile(` id=([0-9a-f]{8})`)
	sizes    = regexp.MustCompile(`bytes=\d+`)
	versions = regexp.MustCompile(`(rejoin|go|os)=\S+`)
)

// anonymous is the trace in a text, without what differs from run to run; ids that are equal stay so.
func anonymous(text string) string {
	trace := ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "trace ") {
			trace += line
		}
	}
	trace = times.ReplaceAllStringFunc(trace, func(text string) string {
		if text[0] == '+' {
			return "+T "
		}
		return " wait=T"
	})
	trace = versions.ReplaceAllString(sizes.ReplaceAllString(trace, "bytes=N"), "$1=V")
	names := map[string]string{}
	return ids.ReplaceAllStringFunc(trace, func(id string) string {
		if names[id] == "" {
			names[id] = string(rune('A' + len(names)))
		}
		return " id=" + names[id]
	})
}
