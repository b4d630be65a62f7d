package clustertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

func TestWithoutAFlawItPasses(t *testing.T) {
	Run(t, Features{VirtualTime: true}, func(t testing.TB) Engine { return newFlawed("").engine(t) })
}

// TestFlawsAreFound breaks one rule at a time. The rule's own test must notice.
func TestFlawsAreFound(t *testing.T) {
	for flaw, clause := range map[string]string{
		"a repeated Join is another one":                   "join",
		"supersedes nobody":                                "join supersedes",
		"renews what was superseded":                       "join supersedes",
		"joins in two steps":                               "joins at once",
		"returns the count that was written":               "renew",
		"shows the caller alone":                           "renew",
		"supersedes whoever is there":                      "late joins",
		"keeps what stands to itself":                      "late joins",
		"joins a process once":                             "late joins",
		"takes Left back":                                  "leave",
		"marks by Self":                                    "leave",
		"knows one cluster":                                "clusters apart",
		"keeps entries for ever":                           "entries outlive leases",
		"keeps entries for a lease":                        "entries outlive leases",
		"puts what is released":                            "put and find",
		"takes nil for empty":                              "put and find",
		"takes empty for nil":                              "save",
		"puts a record once":                               "put again",
		"drops logs when it puts":                          "put again",
		"takes releases back when it puts":                 "put again",
		"puts over other fences":                           "put under another fence",
		"puts over lower epochs":                           "owners after a loss",
		"puts in two steps":                                "puts at once",
		"gives no count with an error":                     "find counts",
		"gives the count of the newest with that Self":     "find counts",
		"saves what it does not know":                      "save",
		"saves older states":                               "late states",
		"saves equal versions":                             "late states",
		"refuses late saves":                               "late states",
		"answers late saves at once":                       "late states",
		"puts older states":                                "late states",
		"puts no equal versions":                           "late states",
		"puts nothing that is late":                        "late states",
		"forgets versions at adoptions":                    "late states",
		"saves in two steps":                               "saves at once",
		"puts no generations":                              "put and find",
		"forgets who adopts":                               "adopt",
		"misses nothing":                                   "fences of records",
		"misses what it has touched":                       "touch",
		"misses only the unknown":                          "end",
		"misses only the ended":                            "unknown sessions",
		"keeps its age when it forgets":                    "age",
		"gives no age with an error":                       "age",
		"looks at the age first":                           "find beside a loss",
		"looks at the count first":                         "find beside a loss",
		"cannot tell its age":                              "age grows",
		"becomes no older than an hour":                    "age grows",
		"cuts large states":                                "large records",
		"refuses large appends":                            "large batches",
		"refuses large restores":                           "large batches",
		"cuts names at NUL":                                "any name",
		"ignores case":                                     "any name",
		"gives out its own record":                         "bytes stay as they were",
		"saves into what it was given":                     "bytes stay as they were",
		"takes events of sessions that it does not know":   "unknown sessions",
		"kills early handles":                              "unknown sessions",
		"takes the unknown for ended":                      "unknown sessions",
		"keeps records for ever":                           "records expire",
		"keeps records for half of their lives":            "records expire",
		"touches nothing":                                  "touch",
		"touches what others own":                          "touch",
		"forgets states at adoptions":                      "adopt",
		"adopts whatever the fence":                        "adopt needs the fence",
		"adopts in two steps":                              "adopters at once",
		"takes a repeated adoption for another one":        "adopt again",
		"takes releases back when an adoption is repeated": "adopt again",
		"sorts streams":                                    "adopted streams",
		"shows no logs without events":                     "streams of restored logs",
		"forgets what streams are about":                   "adopted streams",
		"forgets which stream is a backlog":                "adopted streams",
		"thinks that all logs begin at 1":                  "streams of restored logs",
		"fences no logs":                                   "fences of logs",
		"fences logs by epoch":                             "fences of logs",
		"fences logs by incarnation":                       "fences of logs",
		"fences logs against lower epochs":                 "fences of logs",
		"fences no reads":                                  "fences of logs",
		"fences no restores":                               "fences of logs",
		"fences no drops":                                  "fences of logs",
		"takes no fence for the owner's":                   "fences of logs",
		"fences no records":                                "fences of records",
		"fences records by epoch":                          "fences of records",
		"fences records by incarnation":                    "fences of records",
		"fences records against lower epochs":              "fences of records",
		"checks the fence once":                            "the former owner",
		"looks at the logs before it fences":               "adopt beside appends",
		"adopts and leaves it released":                    "release",
		"forgets the fence when released":                  "release",
		"releases what was adopted":                        "release beside an adoption",
		"puts over tombstones":                             "end",
		"leaves no tombstones":                             "end",
		"ends only what it knows":                          "end of an unknown session",
		"takes the ended for unknown":                      "end beside appends",
		"ends what was adopted":                            "end beside an adoption",
		"keeps tombstones for ever":                        "tombstones expire",
		"keeps tombstones for half of their lives":         "tombstones expire",
		"forgets nothing":                                  "the engine went back",
		"puts first owners only":                           "the engine went back",
		"kills handles when it forgets":                    "the engine went back",
		"ends once":                                        "repeats",
		"ignores contexts":                                 "ended context",
		"works on after close":                             "close",
	} {
		t.Run(flaw, func(t *testing.T) {
			i := slices.IndexFunc(rules, func(r rule) bool { return r.name == clause })
			why := attempt(t, rules[i], newFlawed(flaw).engine)
			if why == "" {
				t.Fatalf("the rule %q passes", clause)
			}
			t.Log(why)
		})
	}
}

// TestEveryRuleCanFail checks that an engine that does nothing fails every rule.
func TestEveryRuleCanFail(t *testing.T) {
	for _, r := range rules {
		if attempt(t, r, func(testing.TB) Engine { return Engine{Directory: dead{}, Store: dead{}, Forget: func() {}} }) == "" {
			t.Errorf("the rule %q passes with an engine that does nothing", r.name)
		}
	}
}

// dead is an engine that does nothing.
type dead struct {
	cluster.Directory
	eventstore.Store
}

var errDead = errors.New("dead")

func (dead) Close() error { return nil }
func (dead) Join(context.Context, cluster.Member, time.Duration) (cluster.Member, error) {
	return cluster.Member{}, errDead
}
func (dead) Put(context.Context, *cluster.Record, time.Duration) error { return errDead }
func (dead) Find(context.Context, string, cluster.Process) (cluster.Found, error) {
	return cluster.Found{}, errDead
}
func (dead) End(context.Context, string, eventstore.Fence) error { return errDead }
func (dead) Log(eventstore.Key) eventstore.Log                   { return nil }

func TestRulesHaveNamesAndSkipsSayWhy(t *testing.T) {
	names := map[string]bool{}
	for _, r := range rules {
		if names[r.name] {
			t.Errorf("two rules are named %q", r.name)
		}
		names[r.name] = true
		if why := r.skip(Features{}); (r.needs == virtualTime) != strings.Contains(why, "Features.VirtualTime") {
			t.Errorf("rule %q: skip says %q", r.name, why)
		}
		if why := r.skip(Features{VirtualTime: true}); why != "" {
			t.Errorf("rule %q: skip says %q", r.name, why)
		}
	}
}

// attempt runs one rule and returns its complaints.
func attempt(t *testing.T, r rule, open func(testing.TB) Engine) string {
	t.Helper()
	rec := &recorder{}
	try := func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				if p := recover(); p != nil {
					rec.Errorf("panic: %v", p)
				}
			}()
			r.try(rec, open)
		}()
		<-done
	}
	if r.needs == virtualTime {
		synctest.Test(t, func(*testing.T) { try() })
	} else {
		try()
	}
	return strings.Join(rec.complaints, "; ")
}

// recorder is a testing.TB that records failures.
type recorder struct {
	testing.TB
	mu         sync.Mutex
	complaints []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := fmt.Sprintf(format, args...); !slices.Contains(r.complaints, c) && len(r.complaints) < 3 {
		r.complaints = append(r.complaints, c)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }
func (r *recorder) Helper()           {}
