package sse_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// outcome is all that a caller of Reader can see of one stream.
type outcome struct {
	events   []sse.Event
	comments int
	err      error
}

// readAll reads until the first error.
func readAll(src io.Reader, max int) outcome {
	var o outcome
	r := sse.NewReader(src, max)
	r.OnComment = func() { o.comments++ }
	for {
		ev, err := r.Next()
		if err != nil {
			o.err = err
			return o
		}
		o.events = append(o.events, ev)
	}
}

// splitAt returns s in two reads, the first of k bytes.
func splitAt(s string, k int) io.Reader {
	return io.MultiReader(strings.NewReader(s[:k]), strings.NewReader(s[k:]))
}

// requireOutcome reads stream whole, byte by byte, with the error in the last
// read, and cut in two at every position.
func requireOutcome(t *testing.T, want outcome, stream string, max int) {
	t.Helper()
	require.Equal(t, want, readAll(strings.NewReader(stream), max), "whole")
	require.Equal(t, want, readAll(iotest.OneByteReader(strings.NewReader(stream)), max), "byte by byte")
	require.Equal(t, want, readAll(iotest.DataErrReader(strings.NewReader(stream)), max), "error with the last bytes")
	for k := range len(stream) + 1 {
		require.Equal(t, want, readAll(splitAt(stream, k), max), "cut at %d", k)
	}
}

// data is an event with nothing but data.
func data(s string) sse.Event {
	return sse.Event{Data: []byte(s), HasData: true, Retry: -1}
}

func TestReader(t *testing.T) {
	id := func(id string, ev sse.Event) sse.Event {
		ev.ID, ev.HasID = id, true
		return ev
	}
	name := func(name string, ev sse.Event) sse.Event {
		ev.Name = name
		return ev
	}
	retry := func(d time.Duration) sse.Event { return sse.Event{Retry: d} }
	none := sse.Event{Retry: -1}

	tests := []struct {
		name   string
		stream string // \n stands for each of the three line ends in turn
		want   outcome
	}{
		{"nothing", "", outcome{}},
		{"only blank lines", "\n\n\n", outcome{}},
		{"data", "data: x\n\n", outcome{events: []sse.Event{data("x")}}},
		{"two events", "data: x\n\ndata: y\n\n", outcome{events: []sse.Event{data("x"), data("y")}}},
		{"blank lines between events", "data: x\n\n\n\ndata: y\n\n", outcome{events: []sse.Event{data("x"), data("y")}}},
		{"all fields", "id: 7\nevent: e\nretry: 5\ndata: x\n\n", outcome{events: []sse.Event{
			{ID: "7", HasID: true, Name: "e", Data: []byte("x"), HasData: true, Retry: 5 * time.Millisecond},
		}}},
		{"no field leaks into the next event", "id: 7\nevent: e\nretry: 5\ndata: x\n\ndata: y\n\n", outcome{events: []sse.Event{
			{ID: "7", HasID: true, Name: "e", Data: []byte("x"), HasData: true, Retry: 5 * time.Millisecond},
			data("y"),
		}}},
		{"several data lines", "data: a\ndata: b\ndata: c\n\n", outcome{events: []sse.Event{data("a\nb\nc")}}},
		{"lines with other fields between", "data: a\nid: 7\n: note\ndata: b\n\n", outcome{events: []sse.Event{id("7", data("a\nb"))}, comments: 1}},
		{"empty data lines", "data\ndata:\ndata: \n\n", outcome{events: []sse.Event{data("\n\n")}}},
		{"shrinking lines", "data: abcdef\ndata: a\ndata\ndata: bcd\n\n", outcome{events: []sse.Event{data("abcdef\na\n\nbcd")}}},
		{"one empty data line is not the same as none", "data\n\nid: 7\n\n", outcome{events: []sse.Event{data(""), id("7", none)}}},

		{"no space after the colon", "data:x\n\n", outcome{events: []sse.Event{data("x")}}},
		{"only one space is dropped", "data:  x \n\n", outcome{events: []sse.Event{data(" x ")}}},
		{"a tab is none", "data:\tx\n\n", outcome{events: []sse.Event{data("\tx")}}},
		{"the first colon counts", "data: a:b\n\n", outcome{events: []sse.Event{data("a:b")}}},
		{"space before the colon: another field", "data : x\ndata: y\n\n", outcome{events: []sse.Event{data("y")}}},
		{"space before the name: another field", " data: x\ndata: y\n\n", outcome{events: []sse.Event{data("y")}}},
		{"names are case-sensitive", "Data: x\nID: 7\ndata: y\n\n", outcome{events: []sse.Event{data("y")}}},
		{"names count whole", "dat: x\ndatas: z\ndata: y\n\n", outcome{events: []sse.Event{data("y")}}},
		{"only unknown fields: no event", "x: y\nfoo\n\n", outcome{}},

		{"comment", ": x\n\n", outcome{comments: 1}},
		{"empty comment", ":\n\n", outcome{comments: 1}},
		{"a comment that looks like a field", ":data: x\n\n", outcome{comments: 1}},
		{"comment in an event", "data: x\n: one\n: two\n\n", outcome{events: []sse.Event{data("x")}, comments: 2}},

		{"id only", "id: 7\n\n", outcome{events: []sse.Event{id("7", none)}}},
		{"empty id", "id\n\nid:\n\n", outcome{events: []sse.Event{id("", none), id("", none)}}},
		{"the last id counts", "id: 7\nid: 8\n\n", outcome{events: []sse.Event{id("8", none)}}},
		{"id with NUL is ignored", "id: 7\nid: 8\x00\ndata: x\n\n", outcome{events: []sse.Event{id("7", data("x"))}}},
		{"only an ignored id: no event", "id: \x00\n\n", outcome{}},
		{"NUL elsewhere is not special", "event: \x00\ndata: \x00\n\n", outcome{events: []sse.Event{name("\x00", data("\x00"))}}},

		{"name only", "event: e\n\n", outcome{events: []sse.Event{name("e", none)}}},
		{"empty name", "event\n\n", outcome{events: []sse.Event{none}}},
		{"the last name counts", "event: e\nevent: f\n\n", outcome{events: []sse.Event{name("f", none)}}},

		{"retry only", "retry: 1500\n\n", outcome{events: []sse.Event{retry(1500 * time.Millisecond)}}},
		{"retry zero is not none", "retry: 0\n\n", outcome{events: []sse.Event{retry(0)}}},
		{"retry with leading zeros", "retry: 0010\n\n", outcome{events: []sse.Event{retry(10 * time.Millisecond)}}},
		{"the last retry counts", "retry: 1\nretry: 2\n\n", outcome{events: []sse.Event{retry(2 * time.Millisecond)}}},
		{"retry that is not a number is ignored", "retry: 5\nretry: 1x\nretry: x1\nretry: -1\nretry: +1\nretry: 1.5\nretry: 1 \nretry:  1\nretry: 0x1\nretry: 1_0\nretry: 1:\nretry: 1/\n\n", outcome{events: []sse.Event{retry(5 * time.Millisecond)}}},
		{"retry with digits beyond ASCII is ignored", "retry: \u0661\n\n", outcome{}},
		{"empty retry is ignored", "retry\nretry:\nretry: \n\n", outcome{}},
		{"retry over a century", "retry: 3153600000001\n\n", outcome{events: []sse.Event{retry(sse.MaxRetry)}}},
		{"retry just a century", "retry: 3153599999999\n\n", outcome{events: []sse.Event{retry(sse.MaxRetry - time.Millisecond)}}},
		{"retry over nanoseconds in 64 bits", "retry: 18446744073710\n\n", outcome{events: []sse.Event{retry(sse.MaxRetry)}}},
		{"retry over 64 bits", "retry: 18446744073709551617\n\n", outcome{events: []sse.Event{retry(sse.MaxRetry)}}},
		{"retry over everything", "retry: " + strings.Repeat("9", 200) + "\n\n", outcome{events: []sse.Event{retry(sse.MaxRetry)}}},

		{"byte order mark", "\xef\xbb\xbfdata: x\n\n", outcome{events: []sse.Event{data("x")}}},
		{"byte order mark and a blank line", "\xef\xbb\xbf\n", outcome{}},
		{"only a byte order mark", "\xef\xbb\xbf", outcome{}},
		{"only the first is one", "\xef\xbb\xbf\xef\xbb\xbfdata: x\n\n", outcome{}},
		{"none at the second line", "\n\xef\xbb\xbfdata: x\n\n", outcome{}},
		{"a part of one", "\xef\xbbdata: x\n\n", outcome{}},
		{"a part of one and a blank line", "\xef\xbb\n\ndata: x\n\n", outcome{events: []sse.Event{data("x")}}},
		{"a stream of one blank line is no byte order mark", "\ndata: x\n\n", outcome{events: []sse.Event{data("x")}}},

		{"not UTF-8", "data: \xff\xc0\x80\xed\xa0\x80\n\n", outcome{events: []sse.Event{data("\xff\xc0\x80\xed\xa0\x80")}}},
		{"other line separators are data", "data: a\u2028b\u0085c\vd\fe\n\n", outcome{events: []sse.Event{data("a\u2028b\u0085c\vd\fe")}}},

		{"ends after the last line", "data: x\n", outcome{err: io.ErrUnexpectedEOF}},
		{"ends in a line", "data: x\n\ndata: y", outcome{events: []sse.Event{data("x")}, err: io.ErrUnexpectedEOF}},
		{"ends after an unknown field", "foo\n", outcome{err: io.ErrUnexpectedEOF}},
		{"ends after a comment line", ": x\n", outcome{comments: 1, err: io.ErrUnexpectedEOF}},
		{"ends in a comment", "data: x\n\n: x", outcome{events: []sse.Event{data("x")}, err: io.ErrUnexpectedEOF}},
		{"ends in a byte order mark", "\xef\xbb", outcome{err: io.ErrUnexpectedEOF}},
		{"an id that never got its blank line is lost", "id: 7\ndata: x\n\nid: 8\nretry: 9\n", outcome{events: []sse.Event{id("7", data("x"))}, err: io.ErrUnexpectedEOF}},
	}
	for _, tt := range tests {
		if tt.want.err == nil {
			tt.want.err = io.EOF
		}
		for end, endName := range map[string]string{"\n": "LF", "\r": "CR", "\r\n": "CRLF"} {
			t.Run(tt.name+"/"+endName, func(t *testing.T) {
				requireOutcome(t, tt.want, strings.ReplaceAll(tt.stream, "\n", end), 1<<10)
			})
		}
	}
}

func TestReaderMixedLineEnds(t *testing.T) {
	tests := []struct {
		name, stream string
		want         []sse.Event
	}{
		{"\\n\\r is two", "data: a\n\rdata: b\n\n", []sse.Event{data("a"), data("b")}},
		{"\\r\\n\\n is two", "data: a\r\n\ndata: b\n\n", []sse.Event{data("a"), data("b")}},
		{"\\r\\r\\n is two", "data: a\r\r\ndata: b\n\n", []sse.Event{data("a"), data("b")}},
		{"\\r\\n is one", "data: a\r\ndata: b\n\n", []sse.Event{data("a\nb")}},
		{"\\r\\n\\r is two", "data: a\r\n\rdata: b\n\n", []sse.Event{data("a"), data("b")}},
		{"only a \\n directly behind is swallowed", "data: a\rdata: b\n\n", []sse.Event{data("a\nb")}},
		{"each line its own", "data: a\rdata: b\r\ndata: c\ndata: d\r\n\r\n", []sse.Event{data("a\nb\nc\nd")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			requireOutcome(t, outcome{events: tt.want, err: io.EOF}, tt.stream, 1<<10)
		})
	}
}

func TestReaderLimit(t *testing.T) {
	const max = 32
	fill := strings.Repeat
	tests := []struct {
		name, stream string
		want         outcome
	}{
		{"a line at the limit", "data: " + fill("x", max-6) + "\n\n", outcome{events: []sse.Event{data(fill("x", max-6))}, err: io.EOF}},
		{"a line over it", "data: " + fill("x", max-5) + "\n\n", outcome{err: sse.ErrTooLarge}},
		{"a line over it that never ends", "data: " + fill("x", max-5), outcome{err: sse.ErrTooLarge}},
		{"a line at the limit that never ends", "data: " + fill("x", max-6), outcome{err: io.ErrUnexpectedEOF}},
		{"a comment over it", ":" + fill("x", max) + "\n\n", outcome{err: sse.ErrTooLarge}},
		{"an unknown field over it", fill("x", max+1) + "\n\n", outcome{err: sse.ErrTooLarge}},
		{"data and the line", "data: " + fill("x", 20) + "\ndata: " + fill("x", 6) + "\n\n", outcome{events: []sse.Event{data(fill("x", 20) + "\n" + fill("x", 6))}, err: io.EOF}},
		{"data and the line, over it", "data: " + fill("x", 20) + "\ndata: " + fill("x", 7) + "\n\n", outcome{err: sse.ErrTooLarge}},
		{"empty data lines: only their separators are kept", fill("data\n", 30) + "\n", outcome{events: []sse.Event{data(fill("\n", 29))}, err: io.EOF}},
		{"empty data lines, over it", fill("data\n", 31) + "\n", outcome{err: sse.ErrTooLarge}},
		{"id and the line", "id: " + fill("i", 20) + "\ndata: " + fill("x", 6) + "\n\n", outcome{events: []sse.Event{
			{ID: fill("i", 20), HasID: true, Data: []byte(fill("x", 6)), HasData: true, Retry: -1},
		}, err: io.EOF}},
		{"id and the line, over it", "id: " + fill("i", 20) + "\ndata: " + fill("x", 7) + "\n\n", outcome{err: sse.ErrTooLarge}},
		{"name and the line, over it", "event: " + fill("e", 20) + "\ndata: " + fill("x", 7) + "\n\n", outcome{err: sse.ErrTooLarge}},
		{"data and a comment, over it", "data: " + fill("x", 20) + "\n:" + fill("x", 12) + "\n\n", outcome{err: sse.ErrTooLarge}},
		{"lines that keep nothing do not add up", fill("foo: "+fill("x", 20)+"\n:"+fill("x", 20)+"\n", 10) + "\n", outcome{comments: 10, err: io.EOF}},
		{"an id that is replaced does not add up", fill("id: "+fill("i", 12)+"\n", 10) + "\n", outcome{events: []sse.Event{{ID: fill("i", 12), HasID: true, Retry: -1}}, err: io.EOF}},
		{"a new event starts anew", fill("data: "+fill("x", 20)+"\n\n", 2), outcome{events: []sse.Event{data(fill("x", 20)), data(fill("x", 20))}, err: io.EOF}},
		{"what was whole before comes first", "data: x\n\n" + fill("x", max+1), outcome{events: []sse.Event{data("x")}, err: sse.ErrTooLarge}},
		{"a byte order mark does not count", "\xef\xbb\xbfdata: " + fill("x", max-6) + "\n\n", outcome{events: []sse.Event{data(fill("x", max-6))}, err: io.EOF}},
		{"nor do line ends", "data: " + fill("x", max-6) + "\r\n\r\n", outcome{events: []sse.Event{data(fill("x", max-6))}, err: io.EOF}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			requireOutcome(t, tt.want, tt.stream, max)
		})
	}
}

func TestReaderErrorStays(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name string
		src  io.Reader
		want error
	}{
		{"clean end", strings.NewReader("data: x\n\n"), io.EOF},
		{"end inside", strings.NewReader("data: x\n\ndata: y\n"), io.ErrUnexpectedEOF},
		{"too large, with an event behind", strings.NewReader("data: x\n\n" + strings.Repeat("y", 65) + "\n\ndata: z\n\n"), sse.ErrTooLarge},
		{"the source's error, inside", io.MultiReader(strings.NewReader("data: x\n\ndata: y"), iotest.ErrReader(broken)), broken},
		{"the source's error, between", io.MultiReader(strings.NewReader("data: x\n\n"), iotest.ErrReader(broken)), broken},
		{"the source's error, with the last bytes", iotest.DataErrReader(io.MultiReader(strings.NewReader("data: x\n\n"), iotest.ErrReader(broken))), broken},
		{"a source that recovers", iotest.TimeoutReader(&chunks{"data: x\n\n", "data: y\n\n"}), iotest.ErrTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := sse.NewReader(tt.src, 64)
			ev, err := r.Next()
			require.NoError(t, err)
			require.Equal(t, data("x"), ev)
			for range 3 {
				ev, err := r.Next()
				require.Equal(t, tt.want, err, "as it is, not wrapped")
				require.Zero(t, ev)
			}
		})
	}
}

// chunks is a source that returns one string a read.
type chunks []string

func (c *chunks) Read(p []byte) (int, error) {
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*c)[0])
	if (*c)[0] = (*c)[0][n:]; (*c)[0] == "" {
		*c = (*c)[1:]
	}
	return n, nil
}

// stuck is a source that returns nothing, for ever.
type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestReaderSourceWithoutProgress(t *testing.T) {
	require.Equal(t, outcome{err: io.ErrNoProgress}, readAll(stuck{}, 64))
	require.Equal(t, outcome{err: io.ErrNoProgress}, readAll(io.MultiReader(strings.NewReader("\xef\xbb"), stuck{}), 64), "in a byte order mark")
}

// An empty read is allowed, and says nothing.
func TestReaderEmptyReads(t *testing.T) {
	src := chunks{"", "\xef", "", "\xbb\xbf", "", "data: ", "", "x\r", "", "\n\r\n"}
	require.Equal(t, outcome{events: []sse.Event{data("x")}, err: io.EOF}, readAll(&src, 64))

	src = make(chunks, 99)
	require.Equal(t, outcome{err: io.EOF}, readAll(&src, 64), "many, then the end")
}

func TestReaderLinesLongerThanOneRead(t *testing.T) {
	const max = 1 << 20
	long := strings.Repeat("0123456789abcdef", 3000)
	stream := "id: 7\ndata: " + long + "\r\ndata: y\ndata: " + long + "\n: " + long + "\n\ndata: z\n\n"
	want := outcome{
		events:   []sse.Event{{ID: "7", HasID: true, Data: []byte(long + "\ny\n" + long), HasData: true, Retry: -1}, data("z")},
		comments: 1,
		err:      io.EOF,
	}
	require.Equal(t, want, readAll(strings.NewReader(stream), max))
	require.Equal(t, want, readAll(iotest.HalfReader(strings.NewReader(stream)), max))
	require.Equal(t, want, readAll(iotest.OneByteReader(strings.NewReader(stream)), max))
	for k := 4000; k < 4200; k++ {
		require.Equal(t, want, readAll(splitAt(stream, k), max), "cut at %d, around the size of a read", k)
	}
}

func TestReaderWithoutOnComment(t *testing.T) {
	ev, err := sse.NewReader(strings.NewReader(": note\n\ndata: x\n\n"), 64).Next()
	require.NoError(t, err)
	require.Equal(t, data("x"), ev)
}

// The data must be the caller's: a reader that lent its buffer would change it
// under the caller's hands.
func TestReaderDataIsTheCallers(t *testing.T) {
	r := sse.NewReader(iotest.OneByteReader(strings.NewReader("data: first\n\ndata: other\n\n")), 64)
	first, err := r.Next()
	require.NoError(t, err)
	_ = append(first.Data, "overwritten"...)
	other, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, "first", string(first.Data))
	require.Equal(t, "other", string(other.Data))
}

// An event is there when its blank line is, whatever follows or does not. In
// the bubble a Next that wants more input is a deadlock, which fails the test.
func TestReaderDoesNotWait(t *testing.T) {
	for _, block := range []string{
		"data: x\n\n",
		"data: x\r\r",
		"data: x\r\n\r\n",
		"data: x\r\n\r", // the \n of it may be under way for a minute
		"\xef\xbb\xbfdata: x\n\n",
	} {
		for _, next := range []string{"data: y\r\r", "\ndata: y\r\r"} {
			synctest.Test(t, func(t *testing.T) {
				pr, pw := io.Pipe()
				seen := make(chan struct{})
				written := make(chan error, 1)
				go func() {
					_, err := pw.Write([]byte(block))
					<-seen
					if err == nil {
						_, err = pw.Write([]byte(next))
					}
					<-seen
					_ = pw.Close()
					written <- err
				}()

				r := sse.NewReader(pr, 64)
				for _, want := range []string{"x", "y"} {
					ev, err := r.Next()
					require.NoError(t, err)
					require.Equal(t, data(want), ev)
					seen <- struct{}{}
				}
				_, err := r.Next()
				require.Equal(t, io.EOF, err)
				require.NoError(t, <-written)
			})
		}
	}
}

// A comment is a sign of life only if it is seen before the next event comes.
// The shortest are shorter than the byte order mark that they could have been.
func TestReaderCommentDoesNotWait(t *testing.T) {
	for _, comment := range []string{": \n\n", ":\n", ":\r"} {
		synctest.Test(t, func(t *testing.T) {
			pr, pw := io.Pipe()
			seen := make(chan struct{}, 1)
			go func() {
				_, _ = io.WriteString(pw, comment)
				<-seen
				_ = pw.Close()
			}()
			r := sse.NewReader(pr, 64)
			r.OnComment = func() { seen <- struct{}{} }
			_, err := r.Next()
			require.Error(t, err, "the end, after the comment was seen")
		})
	}
}

func TestNewReaderWithoutLimit(t *testing.T) {
	for _, max := range []int{0, -1} {
		require.PanicsWithValue(t, "sse: NewReader: max must be positive", func() { sse.NewReader(strings.NewReader(""), max) })
	}
	require.Equal(t, outcome{events: []sse.Event{data("x")}, err: io.EOF}, readAll(strings.NewReader("data: x\n\n"), math.MaxInt))
}

func TestReadWhatWasAppended(t *testing.T) {
	id := []byte("0123456789012345678901.17.n")
	stream := sse.AppendPrimer(nil, id, 1500*time.Millisecond)
	stream = sse.AppendEvent(stream, id, []byte("{\r\n\"a\":\r1,\n\"b\":2}"))
	stream = sse.AppendEvent(stream, nil, []byte("x"))
	stream = sse.AppendComment(stream)
	stream = sse.AppendRetry(stream, 2*time.Second)
	want := outcome{
		events: []sse.Event{
			{ID: string(id), HasID: true, Data: []byte{}, HasData: true, Retry: 1500 * time.Millisecond},
			{ID: string(id), HasID: true, Name: "message", Data: []byte("{\n\"a\":\n1,\n\"b\":2}"), HasData: true, Retry: -1},
			{Name: "message", Data: []byte("x"), HasData: true, Retry: -1},
			{Retry: 2 * time.Second},
		},
		comments: 1,
		err:      io.EOF,
	}
	requireOutcome(t, want, string(stream), 1<<10)
	require.Equal(t, 2, bytes.Count(stream, []byte("event:")), "only what carries a message has a name")
}
