package core

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata; read the difference before you keep it")

// TestScripts runs testdata/*.txt. A line
//
//	> 1.5s post A c1 id=7
//
// is an input: when (left out: at the same time as the one before), what, and its arguments. The indented lines below it are the
// outputs of the machine, in order. A is a stream, S the standalone one, A.3 a position in it, A.3.n2 the id of a primer with its
// nonce, c1 a connection (its nonce is its number). In a batch, a ping's id has a ~ behind it. Names that begin with S are those of standalone
// streams.
//
//	> restore S2 A.3 B.0
//
// goes on with the session in another process, where S2 is the standalone stream. What its store has of A ends with 3, and it has nothing of B.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(text), "# "), "a script begins with the clause it is about")
			got, wrong := rerun(t, string(text))
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
				return
			}
			for _, what := range wrong {
				t.Errorf("%s:%s", path, what)
			}
		})
	}
}

// rerun returns the script with the outputs that its inputs have now, and where that is a difference.
func rerun(t *testing.T, text string) (string, []string) {
	t.Helper()
	s := newScript(t)
	var b strings.Builder
	var wrong []string
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); i++ {
		b.WriteString(lines[i])
		input, ok := strings.CutPrefix(lines[i], "> ")
		if !ok {
			continue
		}
		at, want, got := i+1, "", "  "+strings.Join(s.run(input), "\n  ")+"\n"
		for ; i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  "); i++ {
			want += lines[i+1]
		}
		if got = strings.TrimPrefix(got, "  \n"); want != got {
			wrong = append(wrong, fmt.Sprintf("%d: %swant\n%sgot\n%s", at, input, want, got))
		}
		b.WriteString(got)
	}
	return b.String(), wrong
}

// script steps a machine by lines of text. It is also the language of the tables.
type script struct {
	t      *testing.T
	m      Machine
	base   time.Time
	at     time.Duration
	policy Policy
	index  map[StreamID]int32 // where each stream is
}

func newScript(t *testing.T) *script {
	t.Helper()
	return &script{t: t, base: time.Unix(1e9, 0), index: map[StreamID]int32{}}
}

// all runs the lines and returns the outputs of the last.
func (s *script) all(lines ...string) string {
	s.t.Helper()
	var out []string
	for _, line := range lines {
		out = s.run(line)
	}
	return strings.Join(out, "; ")
}

func (s *script) run(line string) []string {
	s.t.Helper()
	words := strings.Fields(line)
	if at, err := time.ParseDuration(words[0]); err == nil {
		require.GreaterOrEqual(s.t, at, s.at, "%s: time goes on", line)
		s.at = at
		words = words[1:]
	}
	if words[0] == "restore" {
		return s.restore(words[1], words[2:])
	}
	a := s.parse(line, words)
	switch a.verb {
	case "new", "open":
		s.policy = a.policy
		s.m = New(&a.cfg, streamID("S"), s.base.Add(s.at))
		s.index = map[StreamID]int32{streamID("S"): 0}
		if a.verb == "open" {
			s.open(a.name, a.in.Flags)
		}
		return nil
	case "deadline":
		if at := s.m.Deadline(); !at.IsZero() {
			return []string{at.Sub(s.base).String()}
		}
		return []string{"never"}
	case "state":
		return []string{s.m.Inspect(s.index[a.in.Stream]).State.String()}
	case "at-rest":
		return []string{strconv.FormatBool(s.m.AtRest())}
	case "counts":
		return []string{fmt.Sprintf("running=%d unfetched=%d", s.m.Running(), s.m.Unfetched())}
	}
	var lines []string
	for _, out := range s.m.Step(s.base.Add(s.at), &a.in, nil) {
		s.checkIndex(line, out)
		lines = append(lines, show(out))
	}
	check(s.t, &s.m)
	if lines == nil {
		lines = []string{"nothing"}
	}
	return lines
}

// open runs the handshake of a session, whose own script is lifecycle-initialize.txt.
func (s *script) open(version string, f Flags) {
	now := s.base.Add(s.at)
	id := streamID("I")
	for _, in := range []In{
		{Op: Post, Flags: Initialize, Stream: id, Conn: 999, ID: "init", Policy: &s.policy},
		{Op: Opened, ID: version, Flags: f},
		{Op: Reply, Stream: id, ID: "init"},
		{Op: Gone, Stream: id, Conn: 999},
	} {
		s.m.Step(now, &in, nil)
	}
}

// checkIndex fails if a stream is not where it was: its place is the same in every output, from Start to DropLog.
func (s *script) checkIndex(line string, out Out) {
	if out.Stream == (StreamID{}) {
		return
	}
	want, ok := s.index[out.Stream]
	switch {
	case out.Do == Start:
		s.index[out.Stream] = out.Index
		return
	case out.Do == DropLog:
		delete(s.index, out.Stream)
	case out.Index == -1:
		return
	}
	require.True(s.t, ok, "%s: %s after the stream was dropped", line, show(out))
	require.Equal(s.t, want, out.Index, "%s: the place in %s", line, show(out))
}

// args are the parsed arguments of one input.
type args struct {
	verb   string
	in     In
	name   string // what is neither a stream nor a connection nor a setting
	cfg    Config
	policy Policy
}

var verbs = map[string]Op{
	"new": 0, "open": 0, "deadline": 0, "counts": 0, "state": 0, "at-rest": 0,
	"tick": Tick, "opened": Opened, "openfailed": OpenFailed, "post": Post, "get": Get, "emit": Emit, "reply": Reply, "full": Full,
	"lost": Lost, "healed": Healed, "gap": Gap, "written": Written, "gone": Gone, "close": Close, "adjust": Adjust, "cancel": Cancel, "touch": Touch,
	"delete": Delete, "drain": Drain, "handover": HandOver, "stop": Stop, "press": Press,
}

var flagNames = map[string]Flags{
	"noflush": NoFlush, "initialize": Initialize, "progress": Progress, "ask": Ask, "task": Augmented, "canpoll": CanPoll, "cannotpoll": CannotPoll,
	"final": Final, "ping": Ping, "of-standalone": OfStandalone, "let-go": LetGo,
}

func (s *script) parse(line string, words []string) args {
	op, ok := verbs[words[0]]
	require.True(s.t, ok, "%s: no such input", line)
	a := args{verb: words[0], in: In{Op: op}, policy: s.policy}
	if a.verb == "new" || a.verb == "open" {
		a.policy = Policy{
			StreamAfter: 100 * time.Millisecond, Retry: time.Second, RetryMax: 30 * time.Second, AbandonAfter: 10 * time.Minute,
			Retain: 5 * time.Minute,
		}
		a.cfg = Config{SessionIdleTTL: 30 * time.Minute, Remember: 1000}
	}
	if op == Adjust {
		a.policy = Policy{}
	}
	if op == Delete {
		a.in.Reason = Deleted // unless it says otherwise
	}
	for _, word := range words[1:] {
		s.word(line, word, &a)
	}
	a.cfg.Policy = a.policy
	if op == Post || op == Adjust {
		a.in.Policy = &a.policy
	}
	if a.name != "" && a.in.ID == "" {
		a.in.ID = a.name
	}
	return a
}

func (s *script) word(line, word string, a *args) {
	t := s.t
	key, value, isSetting := strings.Cut(word, "=")
	dur := func() time.Duration {
		d, err := time.ParseDuration(value)
		require.NoError(t, err, line)
		return d
	}
	num := func(text string) uint64 {
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, line)
		return n
	}
	if f, ok := flagNames[word]; ok {
		a.in.Flags |= f
		return
	}
	if isSetting {
		switch key {
		case "id":
			a.in.ID = value
		case "key":
			a.in.Key = value
		case "batch":
			for id := range strings.SplitSeq(value, ",") {
				id, ping := strings.CutSuffix(id, "!")
				id, key, _ := strings.Cut(id, "~")
				a.in.Batch = append(a.in.Batch, Request{ID: id, Key: key, Ping: ping})
			}
		case "rand":
			a.in.Rand = uint32(num(value))
		case "nonce":
			a.in.Nonce = num(value)
		case "mode":
			a.policy.Mode = map[string]Mode{"auto": Auto, "sse": SSE, "json": JSON}[value]
		case "stream-after":
			a.policy.StreamAfter = dur()
		case "close-after":
			a.policy.CloseAfter = dur()
		case "retry":
			if a.policy.Retry = dur(); a.in.Op == Close {
				a.in.Dur = dur()
			}
		case "limit":
			a.in.Dur = dur()
		case "retry-max":
			a.policy.RetryMax = dur()
		case "abandon-after":
			a.policy.AbandonAfter = dur()
		case "max-runtime":
			a.policy.MaxRuntime = dur()
		case "retain":
			a.policy.Retain = dur()
		case "idle":
			a.cfg.SessionIdleTTL = dur()
		case "max-in-flight":
			a.cfg.MaxInFlight = int(num(value))
		case "max-ended":
			a.cfg.MaxEnded = int(num(value))
		case "stale":
			a.in.Stale = int(num(value))
		case "id-bytes":
			a.cfg.IDBytes = int(num(value))
		case "remember":
			a.cfg.Remember = int(num(value))
		default:
			t.Fatalf("%s: no setting %q", line, key)
		}
		return
	}
	for r, name := range reasonNames {
		if word == name && r > 0 {
			a.in.Reason = Reason(r)
			return
		}
	}
	switch {
	case word == "nostandalone":
		a.cfg.NoStandalone = true
	case word[0] == 'c' && len(word) > 1:
		a.in.Conn = ConnID(num(word[1:]))
		a.in.Nonce = uint64(a.in.Conn)
	case word[0] >= 'A' && word[0] <= 'Z':
		name, seq, ok := strings.Cut(word, ".")
		a.in.Stream = streamID(name)
		if ok {
			seq, _, _ = strings.Cut(seq, ".")
			a.in.Seq = num(seq)
		}
		if a.in.Op == Get {
			require.True(t, ok, "%s: a cursor has a position", line)
			a.in.Flags |= HasCursor
			if word[0] == 'S' {
				a.in.Flags |= OfStandalone
			}
		}
	default:
		require.Empty(t, a.name, "%s: too many names", line)
		a.name = word
	}
}

func streamID(name string) (id StreamID) {
	copy(id[:], name)
	return id
}

func (id StreamID) String() string { return strings.TrimRight(string(id[:]), "\x00") }

var reasonNames = [...]string{
	"", "duplicate", "too-many", "stuck", "draining", "unknown", "nothing-left", "expired", "no-standalone", "not-resumable", "ended", "unreachable",
	"no-stream", "worthless", "store-failed", "cancelled", "abandoned", "overran", "deleted", "idle", "open-failure", "shutdown", "taken-over",
	"moved", "terminated", "no-room", "owner-lost",
}

// Each reason has a name.
var _ [OwnerLost + 1]string = reasonNames

// show writes an output as one line.
func show(o Out) string {
	conn := fmt.Sprintf("c%d", o.Conn)
	at := fmt.Sprintf("%s.%d", o.Stream, o.Seq)
	var words []string
	switch o.Do {
	case Start:
		words = []string{"start", o.Stream.String(), conn}
	case Attach:
		words = []string{"attach", conn, at}
		if o.Index < 0 {
			words = append(words, "nothing-to-read")
		}
	case Head:
		words = []string{"head", conn}
		if o.Dur > 0 {
			words = append(words, "wait="+o.Dur.String())
		}
	case Primer:
		words = []string{"primer", conn, fmt.Sprintf("%s.n%d", at, o.Nonce), "retry=" + o.Dur.String()}
	case Comment:
		words = []string{"comment", conn}
	case Record:
		words = []string{"record", at}
		if o.Seal {
			words = append(words, "seal")
		}
	case Hold:
		words = []string{"hold", o.Stream.String()}
	case Release:
		words = []string{"release", o.Stream.String()}
	case AnswerJSON:
		words = []string{"json", conn}
	case End:
		words = []string{"end", conn, at}
		if o.Seq == 0 {
			words[2] = "now"
		}
		if o.Least > 0 {
			words = append(words, fmt.Sprintf("least=%d", o.Least))
		}
		if o.Older {
			words = append(words, "after-older")
		}
		if o.Dur > 0 {
			words = append(words, "retry="+o.Dur.String())
		}
	case Refuse:
		words = []string{"refuse"}
		if o.Conn != 0 {
			words = append(words, conn)
		}
	case Expire:
		if o.Nonce != 0 {
			at = fmt.Sprintf("%s.n%d", at, o.Nonce)
		}
		words = []string{"error", conn, at, "id=" + o.ID}
	case Older:
		words = []string{"older", conn, at, fmt.Sprintf("last=%d", o.Last)}
	case Discard:
		words = []string{"discard"}
	case CancelApp:
		words = []string{"cancel-app", o.Stream.String(), "id=" + o.ID}
	case Fail:
		words = []string{"fail", o.Stream.String(), "id=" + o.ID}
	case Strand:
		words = []string{"strand", o.Stream.String()}
	case Doubt:
		words = []string{"doubt", o.Stream.String()}
	case Yield:
		words = []string{"yield", at}
	case DropLog:
		words = []string{"drop", o.Stream.String()}
	case EndSession:
		words = []string{"end-session"}
	default:
		words = []string{fmt.Sprintf("unknown output %d", o.Do)}
	}
	if o.Reason != NoReason {
		words = append(words, reasonNames[o.Reason])
	}
	return strings.Join(words, " ")
}

// showIn writes an input as one line.
func showIn(in In) string {
	words := []string{"?"}
	for name, op := range verbs {
		if op == in.Op && name != "new" && name != "open" && name != "deadline" && name != "counts" && name != "state" && name != "at-rest" {
			words[0] = name
		}
	}
	if in.Stream != (StreamID{}) {
		words = append(words, fmt.Sprintf("%s.%d", in.Stream, in.Seq))
	}
	if in.Conn != 0 {
		words = append(words, fmt.Sprintf("c%d", in.Conn))
	}
	if in.ID != "" {
		words = append(words, "id="+in.ID)
	}
	for _, r := range in.Batch {
		words = append(words, "id="+r.ID)
	}
	for name, f := range flagNames {
		if in.Flags&f != 0 {
			words = append(words, name)
		}
	}
	if in.Dur != 0 {
		words = append(words, in.Dur.String())
	}
	return strings.Join(words, " ")
}
