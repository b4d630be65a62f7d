package redisstore

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

var errAnswer = errors.New("redisstore: the engine has answered in another form than the script does")

// fields reads an answer that has parts, one after the other. The first error stays.
type fields struct {
	rest []rueidis.RedisMessage
	err  error
}

func answerOf(r rueidis.RedisResult) *fields {
	all, err := r.ToArray()
	return &fields{all, err}
}

func (f *fields) next() *rueidis.RedisMessage {
	if f.err == nil && len(f.rest) == 0 {
		f.err = errAnswer
	}
	if f.err != nil {
		return nil
	}
	m := &f.rest[0]
	f.rest = f.rest[1:]
	return m
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *fields) integer() int64 {
	m := f.next()
	if m == nil {
		return 0
	}
	n, err := m.AsInt64()
	f.fail(err)
	return n
}

func (f *fields) text() string {
	b, _ := f.bytes()
	return rueidis.BinaryString(b)
}

// bytes returns a part; false: it is null.
func (f *fields) bytes() ([]byte, bool) {
	m := f.next()
	if m == nil || m.IsNil() {
		return nil, false
	}
	b, err := m.AsBytes()
	f.fail(err)
	if b == nil {
		b = []byte{}
	}
	return b, true
}

func (f *fields) list() *fields {
	m := f.next()
	if m == nil {
		return &fields{err: f.err}
	}
	all, err := m.ToArray()
	return &fields{all, err}
}

func (f *fields) number() uint64 {
	text := f.text()
	if f.err != nil {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	f.fail(err)
	return n
}

// readAnswer reads what read.lua has answered. next is the first event of the chunk in which the next read begins; 0: it is not known.
func readAnswer(r rueidis.RedisResult, after uint64, buf []eventstore.Event) (n int, st eventstore.State, next uint64, err error) {
	f := answerOf(r)
	if code := f.integer(); f.err == nil && code < 0 {
		return 0, st, 0, refusal(code)
	}
	st = eventstore.State{First: f.number(), Last: f.number(), Sealed: f.integer() == 1}
	next = f.number()
	seq := max(after+1, st.First)
	for f.err == nil && len(f.rest) > 0 {
		whole := f.integer() == 1
		piece, _ := f.bytes()
		if whole && len(piece) >= countBytes {
			piece = piece[countBytes:]
		}
		more, err := decode(piece, seq, buf[n:])
		f.fail(err)
		n, seq = n+more, seq+uint64(more) //nolint:gosec // not negative
	}
	if f.err != nil {
		return 0, eventstore.State{}, 0, f.err
	}
	return n, st, next, nil
}

// record reads the fields f, o, a, v, s and r of a session.
func (f *fields) record(session string) *cluster.Record {
	r := &cluster.Record{Session: session}
	fence, err := parseOwner(f.text())
	f.fail(err)
	r.Fence = fence
	generation, self, _ := strings.Cut(f.text(), " ")
	r.Generation, err = strconv.ParseUint(generation, 10, 64)
	f.fail(err)
	r.Self = self
	about, _ := f.bytes()
	format, rest, _ := strings.Cut(rueidis.BinaryString(about), " ")
	r.Format, err = strconv.Atoi(format)
	f.fail(err)
	r.About = []byte(rest)
	r.Version = f.number()
	if state, saved := f.bytes(); saved {
		r.State = slices.Clip(state)
	}
	_, r.Released = f.bytes()
	return r
}

// parseMember reads an entry of members.lua.
func parseMember(p cluster.Process, entry string) (m cluster.Member, err error) {
	parts := strings.SplitN(entry, " ", 5)
	if len(parts) != 5 {
		return m, errAnswer
	}
	var errs [2]error
	m.Process = p
	m.Incarnation = parts[4]
	m.Generation, errs[0] = strconv.ParseUint(parts[0], 10, 64)
	m.Count, errs[1] = strconv.ParseUint(parts[1], 10, 64)
	m.Left = parts[2] == "1"
	return m, errors.Join(errs[:]...)
}
