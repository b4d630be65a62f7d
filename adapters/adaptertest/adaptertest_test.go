package adaptertest

import (
	"net/http"
	"testing"

	"github.com/rejoin-mcp/rejoin"
)

func TestReferencePasses(t *testing.T) {
	Run(t, subject(""))
}

// TestFlawsAreFound breaks one thing at a time. The rules that it breaks must notice.
func TestFlawsAreFound(t *testing.T) {
	for flaw, names := range map[string][]string{
		"redirects":                      {Paths, Lends, Refusals, Answers, PathsAcross},
		"knows one spelling":             {Paths, Lends, Refusals, Answers},
		"answers HEAD":                   {Paths, Lends, Refusals},
		"answers OPTIONS":                {Paths, Lends, Refusals},
		"has a 405 of its own":           {Paths, Lends, Refusals},
		"limits bodies":                  {Refusals, Answers, RefusalsAcross},
		"looks for a form":               {Refusals},
		"eats the body":                  {Paths, Refusals, Answers, Modern, Tasks, TasksWrap, AnswersAcross},
		"overrides the method":           {Refusals},
		"keeps the last line of a field": {Refusals},
		"has a page for each error":      {Paths, Refusals, Answers, RefusalsAcross},
		"has a 404 of its own":           {Paths, Refusals, Answers},
		"adds a charset":                 {Refusals, Answers},
		"forgets Retry-After":            {Refusals},
		"forgets Allow":                  {Paths, Refusals},
		"wraps errors":                   {Refusals, Answers},
		"loses the id":                   {Refusals},
		"fills what is empty":            {Answers, AnswersAcross},
		"makes 202 out of 204":           {Paths, Answers, Refusals},
		"names the session always":       {Refusals, Answers},
		"takes the cursor away":          {Polling, Own, OwnAtOnce, Refusals, Answers, PollingAcross, OwnAcross},
		"adds a header":                  {Polling, Flush, Refusals, Answers},
		// An error handler cannot add to an answer that has a length.
		"has an error handler":           {Polling, Late, Panics, Flush, Lends, LateAcross, PanicsAcross, FlushAcross},
		"hands its own context on":       {Own, OwnAtOnce, Modern, Tasks, TasksMany, OwnAcross, OwnAtOnceAcross},
		"forgets the parameters":         {Own, OwnAtOnce, Modern, Tasks, TasksMany, OwnAcross},
		"forgets the user":               {Own, OwnAtOnce, Modern, Tasks, TasksMany, OwnAcross},
		"remembers the first":            {Own, OwnAtOnce, Modern, Tasks, TasksMany, OwnAcross, OwnAtOnceAcross},
		"makes nothing of what is unset": {Unset, UnsetAcross},
		"writes late":                    {Late, LateAcross},
		"buffers":                        {Flush, Polling, Modern, FlushAcross, PollingAcross},
		"claims to flush":                {Flush, Buffered, FlushAcross, BufferedAcross},
		"hides the connection":           {TimeOuts, TimeOutsAcross},
		"has a context of its own":       {Outer, OuterAcross},
		"lends nothing":                  {Lends, LendsAlone},
		"lends where it serves":          {LendsAlone},
		"serves any path":                {LendsAlone},

		"serves the first server":           {PathsAcross, PollingAcross, OwnAcross, OwnAtOnceAcross, UnsetAcross, LateAcross, HeadAcross},
		"drops unknown fields":              {PathsAcross, RefusalsAcross, PollingAcross, OwnAtOnceAcross, HeadAcross},
		"knows clients alone":               {PathsAcross, PollingAcross, OwnAcross, OwnAtOnceAcross, HeadAcross},
		"knows tenants by their connection": {OwnAcross, OwnAtOnceAcross},
		"adds a head of its own":            {HeadAcross},
	} {
		for _, name := range names {
			t.Run(flaw+": "+name, func(t *testing.T) {
				faults := Faults(t, subject(flaw), name)
				if len(faults) == 0 {
					t.Fatalf("the rule %q passes", name)
				}
				t.Logf("%.300s", faults[0])
			})
		}
	}
}

// TestEveryRuleCanFail checks that an adapter that serves nothing fails every rule.
func TestEveryRuleCanFail(t *testing.T) {
	dead := subject("")
	dead.Mount = func(testing.TB, *rejoin.Server, string, ...func(http.Handler) http.Handler) http.Handler {
		return http.NotFoundHandler()
	}
	dead.Lend = func(testing.TB, *rejoin.Server, string, string, http.HandlerFunc) http.Handler {
		return http.NotFoundHandler()
	}
	names := map[string]bool{}
	for _, r := range rules {
		if names[r.name] {
			t.Errorf("two rules are named %q", r.name)
		}
		names[r.name] = true
		if len(Faults(t, dead, r.name)) == 0 {
			t.Errorf("the rule %q passes with an adapter that does nothing", r.name)
		}
	}
}

// Faults returns nothing for rules that pass.
func TestNoFaults(t *testing.T) {
	if faults := Faults(t, subject(""), Polling, Panics, Buffered); len(faults) > 0 {
		t.Errorf("%q", faults)
	}
}

func TestSkipsSayWhy(t *testing.T) {
	s := subject("")
	for _, r := range rules {
		if why := r.skip(s); why != "" {
			t.Errorf("the rule %q is not asked: %s", r.name, why)
		}
	}
	s.Lend = nil
	for _, r := range rules {
		if why := r.skip(s); (why != "") != (r.name == Lends || r.name == LendsAlone) {
			t.Errorf("without Lend, the rule %q: skip says %q", r.name, why)
		}
	}
}
