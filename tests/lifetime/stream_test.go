package lifetime_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const begun = 2 * time.Millisecond // by then a call has its stream: StreamAfter is 1 ms in these tests

// How long a response is kept: Retain after it was recorded or after its client was due, whichever is later. A poll that brings events extends
// it, an empty poll does not. Whether the response was written before makes no difference.
func TestRetainToTheInstant(t *testing.T) {
	const retain = 5 * time.Minute
	for name, test := range map[string]struct {
		before  func(t *testing.T, call *rejointest.Call, tool *kit.ManualTool)
		stays   time.Duration // how long after the end of before
		slack   time.Duration // for a retry in milliseconds
		summary string        // the summary of a poll from the first id after that
	}{
		"recorded after the client was due back": {before: func(_ *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			call.Cut()
			kit.Elapse(time.Minute)
			tool.Returns("done")
		}, stays: retain},
		"recorded before the client was due back": {before: func(_ *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			call.Cut()
			tool.Returns("done")
		}, stays: retain + time.Second},
		"recorded long before the client was due back": {before: func(t *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			require.NoError(t, tool.CloseStream(50*time.Minute))
			tool.Returns("done")
			kit.Elapse(call.WaitClosed())
		}, stays: retain, slack: time.Millisecond},
		"written": {before: func(t *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			tool.Returns("done")
			require.Equal(t, `"done"`, string(call.Result()))
		}, stays: retain + time.Second},
		"written, and polls that bring nothing": {before: func(t *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			tool.Returns("done")
			for range 9 {
				kit.Elapse(10 * time.Second)
				call.PollFrom(call.IDs()[1])
				require.Equal(t, "204 sse answered", kit.Last(call))
			}
		}, stays: retain + time.Second - 90*time.Second},
		"fetched late": {before: func(t *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			call.Cut()
			tool.Returns("done")
			kit.Elapse(4 * time.Minute)
			require.Equal(t, `"done"`, string(call.Result()))
		}, stays: retain + time.Second}, // the client may have lost it again
		"fetched again": {before: func(_ *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			tool.Returns("done")
			kit.Elapse(4 * time.Minute)
			call.PollFrom(call.IDs()[0])
		}, stays: retain + time.Second},
		"an error": {before: func(_ *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			call.Cut()
			kit.Elapse(time.Minute)
			tool.Returns(rejoin.Errorf(-7, "no"))
		}, stays: retain},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				store := eventstore.NewMemory(eventstore.MemoryConfig{})
				c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{
					Store: store, Policy: rejoin.Policy{Retain: retain, StreamAfter: time.Millisecond},
				}})
				call := c.CallTool("x", nil)
				tool := next()
				kit.Elapse(begun)
				test.before(t, call, tool)
				lasts(t, test.stays, max(test.slack, time.Nanosecond), "the response", func() bool {
					bytes, _ := store.Usage()
					return bytes > 0 && c.Server().Stats().Streams == 2
				})
				bytes, _ := store.Usage()
				require.Zero(t, bytes, "nothing of it is kept")
				call.PollFrom(call.IDs()[0])
				require.Regexp(t, `^200 sse primer@0 1:error\(-32000,2\) expired closed$`, kit.Last(call), "its numbers are remembered")
			})
		})
	}
}

// One poll at the last moment gets it.
func TestAPollJustBeforeRetainHasPassed(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{StreamAfter: time.Millisecond}}})
		call := c.CallTool("x", nil)
		tool := next()
		kit.Elapse(begun)
		call.Cut()
		kit.Elapse(time.Minute)
		tool.Returns("done")
		kit.Elapse(5*time.Minute - time.Nanosecond)
		call.Poll()
		require.Equal(t, "200 sse primer@0 1:result closed", kit.Last(call))
	})
}

// limited is a way in which a request runs out of time.
type limited struct {
	policy rejoin.Policy
	before func(t *testing.T, call *rejointest.Call, tool *kit.ManualTool)
	runs   time.Duration // how long the call runs after the end of before
	slack  time.Duration
	lost   bool // no client can fetch the error
}

// runsOut requires that a call is cancelled at that time, with that cause, and answered with that error.
func (test limited) runsOut(t *testing.T, version string, cause error, reason string) {
	t.Helper()
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		cfg := rejoin.Config{KeepAlive: -1, SessionIdleTTL: -1, Policy: rejoin.Policy{StreamAfter: time.Millisecond, Retain: time.Hour}}
		cfg.PolicyFor = func(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy {
			if r.Name != "x" {
				return p
			}
			q := test.policy
			q.Retain = p.Retain
			if q.StreamAfter == 0 {
				q.StreamAfter = p.StreamAfter
			}
			return q
		}
		c := rejointest.New(t, app, rejointest.Config{Version: version, Patience: 1000 * time.Hour, Server: cfg})
		call := c.CallTool("x", nil)
		tool := next()
		test.before(t, call, tool)
		lasts(t, test.runs, max(test.slack, time.Nanosecond), "the call", func() bool { return tool.Cause() == nil })
		require.Equal(t, cause, tool.Cause())
		require.NoError(t, tool.Progress(9, 0, ""), "progress after the end is dropped")
		require.ErrorIs(t, tool.CloseStream(0), rejoin.ErrEnded)
		if !test.lost {
			e := call.Err()
			require.Equal(t, -32000, e.Code)
			require.JSONEq(t, `{"reason":"`+reason+`"}`, string(e.Data))
			if !call.JSON() {
				require.Regexp(t, `[0-9]+:error\(-32000,2\) `+reason+" closed$", kit.Last(call), "it is recorded as the response")
			}
		}
		require.Equal(t, `{}`, string(c.Start("ping", nil).Result()), "the session lives")
	})
}

func TestAbandonAfterToTheInstant(t *testing.T) {
	const away = 10 * time.Minute // the default of AbandonAfter
	for name, test := range map[string]limited{
		"from when a lost client was due back": {before: func(_ *testing.T, call *rejointest.Call, _ *kit.ManualTool) {
			kit.Elapse(time.Hour)
			call.Cut()
		}, runs: away + time.Second},
		"with another retry": {policy: rejoin.Policy{Retry: time.Minute, RetryMax: time.Hour}, before: func(_ *testing.T, call *rejointest.Call, _ *kit.ManualTool) {
			kit.Elapse(begun)
			call.Cut()
		}, runs: away + time.Minute},
		"from when a client was told to be back": {before: func(t *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			require.NoError(t, tool.CloseStream(45*time.Minute))
			kit.Elapse(call.WaitClosed())
		}, runs: away, slack: time.Millisecond},
		"with a retry that has grown": {policy: rejoin.Policy{RetryMax: time.Hour}, before: func(t *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			for range 9 {
				require.NoError(t, tool.CloseStream(0))
				kit.Elapse(call.WaitClosed())
				call.Poll()
			}
			require.NoError(t, tool.CloseStream(0))
			retry := call.WaitClosed()
			require.Greater(t, retry, 30*time.Second)
			kit.Elapse(retry)
		}, runs: away, slack: time.Millisecond},
		"anew from each poll": {before: func(_ *testing.T, call *rejointest.Call, _ *kit.ManualTool) {
			kit.Elapse(begun)
			call.Cut()
			for range 5 {
				kit.Elapse(away + time.Second - time.Nanosecond)
				call.Poll()
				call.Cut()
			}
		}, runs: away + time.Second},
		"not while somebody reads": {before: func(_ *testing.T, call *rejointest.Call, _ *kit.ManualTool) {
			kit.Elapse(begun)
			call.Cut()
			kit.Elapse(time.Minute)
			call.Poll()
			kit.Elapse(5 * time.Hour)
			call.Cut()
		}, runs: away + time.Second},
		"nor does what the tool says count": {before: func(t *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			kit.Elapse(begun)
			call.Cut()
			for range 9 {
				kit.Elapse(time.Minute)
				require.NoError(t, tool.Progress(1, 0, ""))
			}
		}, runs: away + time.Second - 9*time.Minute},
		"of a call that nobody can come back for": {policy: rejoin.Policy{StreamAfter: time.Minute}, before: func(_ *testing.T, call *rejointest.Call, _ *kit.ManualTool) {
			call.Cut()
		}, runs: away, lost: true},
		"its own": {policy: rejoin.Policy{AbandonAfter: 3 * time.Second}, before: func(_ *testing.T, call *rejointest.Call, _ *kit.ManualTool) {
			kit.Elapse(begun)
			call.Cut()
		}, runs: 4 * time.Second},
		"set by the tool": {before: func(t *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			kit.Elapse(begun)
			call.Cut()
			kit.Elapse(time.Minute)
			require.NoError(t, tool.SetPolicy(rejoin.Policy{AbandonAfter: 2 * time.Minute}))
		}, runs: time.Minute + time.Second},
		"set by the tool to less than has passed": {before: func(t *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			kit.Elapse(begun)
			call.Cut()
			kit.Elapse(time.Minute)
			require.NoError(t, tool.SetPolicy(rejoin.Policy{AbandonAfter: -1}))
			kit.Elapse(time.Hour)
			require.NoError(t, tool.Cause(), "negative is off")
			require.NoError(t, tool.SetPolicy(rejoin.Policy{CloseAfter: time.Minute}), "zero stays as it is")
			kit.Elapse(time.Hour)
			require.NoError(t, tool.Cause())
			require.NoError(t, tool.SetPolicy(rejoin.Policy{AbandonAfter: 2*time.Hour + time.Minute}))
		}, runs: time.Second},
	} {
		t.Run(name, func(t *testing.T) { test.runsOut(t, kit.Polling, rejoin.ErrAbandoned, "abandoned") })
	}
	t.Run("of a client that cannot poll", func(t *testing.T) {
		limited{before: func(_ *testing.T, call *rejointest.Call, tool *kit.ManualTool) {
			_ = tool.Progress(1, 0, "")
			synctest.Wait()
			call.Cut()
		}, runs: away}.runsOut(t, kit.Legacy, rejoin.ErrAbandoned, "abandoned")
	})
}

func TestMaxRuntimeToTheInstant(t *testing.T) {
	const limit = time.Hour
	policy := rejoin.Policy{MaxRuntime: limit, AbandonAfter: -1}
	for name, test := range map[string]limited{
		"while somebody reads": {policy: policy, before: func(*testing.T, *rejointest.Call, *kit.ManualTool) {}, runs: limit},
		"while nobody does": {policy: policy, before: func(_ *testing.T, call *rejointest.Call, _ *kit.ManualTool) {
			kit.Elapse(time.Minute)
			call.Cut()
		}, runs: limit - time.Minute},
		"whoever comes back": {policy: policy, before: func(_ *testing.T, call *rejointest.Call, _ *kit.ManualTool) {
			kit.Elapse(time.Minute)
			call.Cut()
			kit.Elapse(30 * time.Minute)
			call.Poll()
			kit.Elapse(10 * time.Minute)
		}, runs: limit - 41*time.Minute},
		"in mode JSON":               {policy: rejoin.Policy{Mode: rejoin.ModeJSON, MaxRuntime: limit}, before: func(*testing.T, *rejointest.Call, *kit.ManualTool) {}, runs: limit},
		"before the form is decided": {policy: rejoin.Policy{StreamAfter: -1, MaxRuntime: limit}, before: func(*testing.T, *rejointest.Call, *kit.ManualTool) {}, runs: limit},
		"of a call that nobody can come back for": {policy: rejoin.Policy{StreamAfter: -1, MaxRuntime: limit, AbandonAfter: -1}, before: func(_ *testing.T, call *rejointest.Call, _ *kit.ManualTool) {
			call.Cut()
		}, runs: limit, lost: true},
		"set by the tool": {before: func(t *testing.T, _ *rejointest.Call, tool *kit.ManualTool) {
			kit.Elapse(20 * time.Minute)
			require.NoError(t, tool.SetPolicy(rejoin.Policy{MaxRuntime: limit}))
		}, runs: limit - 20*time.Minute},
		"lifted by the tool, and set again": {policy: policy, before: func(t *testing.T, _ *rejointest.Call, tool *kit.ManualTool) {
			require.NoError(t, tool.SetPolicy(rejoin.Policy{MaxRuntime: -1}))
			kit.Elapse(5 * limit)
			require.NoError(t, tool.Cause())
			require.NoError(t, tool.SetPolicy(rejoin.Policy{MaxRuntime: 6 * limit}))
		}, runs: limit},
	} {
		for _, version := range []string{kit.Polling, kit.Legacy} {
			if version == kit.Legacy && name == "whoever comes back" {
				continue // that is a poll
			}
			t.Run(name+" "+version, func(t *testing.T) {
				if version == kit.Legacy && name == "while nobody does" {
					test.lost = true // a comment has no id
				}
				test.runsOut(t, version, rejoin.ErrMaxRuntime, "max_runtime")
			})
		}
	}
}
