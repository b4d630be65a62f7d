package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // the engine names scripts so
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// script is a Lua script. The engine takes it whole the first time, and then by its hash.
type script struct{ name, text, sha string }

var (
	//go:embed scripts/session.lua
	ofSession string
	//go:embed scripts/members.lua
	ofMembers string

	//go:embed scripts/append.lua
	appendText string
	//go:embed scripts/restore.lua
	restoreText string
	//go:embed scripts/read.lua
	readText string
	//go:embed scripts/drop.lua
	dropText string
	//go:embed scripts/dropsession.lua
	dropSessionText string
	//go:embed scripts/put.lua
	putText string
	//go:embed scripts/save.lua
	saveText string
	//go:embed scripts/release.lua
	releaseText string
	//go:embed scripts/touch.lua
	touchText string
	//go:embed scripts/end.lua
	endText string
	//go:embed scripts/adopt.lua
	adoptText string
	//go:embed scripts/join.lua
	joinText string
	//go:embed scripts/renew.lua
	renewText string
	//go:embed scripts/leave.lua
	leaveText string
	//go:embed scripts/find.lua
	findText string
	//go:embed scripts/probe.lua
	probeText string
)

// What an engine that is full refuses, and what it takes: an engine that refused renewals would stop all processes, and a client waits for
// the event that seals a stream.
const (
	deniedWhenFull = "#!lua\n"
	takenWhenFull  = "#!lua flags=allow-oom\n"
	readOnly       = "#!lua flags=no-writes,allow-oom\n"
)

var (
	appendScript  = newScript("append", deniedWhenFull, ofSession, appendText)
	sealScript    = newScript("append", takenWhenFull, ofSession, appendText)
	restoreScript = newScript("restore", deniedWhenFull, ofSession, restoreText)
	resealScript  = newScript("restore", takenWhenFull, ofSession, restoreText)
	readScript    = newScript("read", readOnly, ofSession, readText)
	dropScript    = newScript("drop", takenWhenFull, ofSession, dropText)
	dropAllScript = newScript("drop the session", takenWhenFull, ofSession, dropSessionText)
	putScript     = newScript("put", deniedWhenFull, ofSession, putText)
	saveScript    = newScript("save", deniedWhenFull, ofSession, saveText)
	releaseScript = newScript("release", takenWhenFull, ofSession, releaseText)
	touchScript   = newScript("touch", takenWhenFull, ofSession, touchText)
	endScript     = newScript("end", takenWhenFull, ofSession, endText)
	adoptScript   = newScript("adopt", takenWhenFull, ofSession, adoptText)
	joinScript    = newScript("join", takenWhenFull, ofMembers, joinText)
	renewScript   = newScript("renew", takenWhenFull, ofMembers, renewText)
	leaveScript   = newScript("leave", takenWhenFull, ofMembers, leaveText)
	findScript    = newScript("find", takenWhenFull, ofMembers, findText)
	probeScript   = newScript("probe", takenWhenFull, "", probeText)
)

func newScript(name, flags string, parts ...string) *script {
	text := flags + strings.Join(parts, "\n")
	sum := sha1.Sum([]byte(text)) //nolint:gosec // the engine names scripts so
	return &script{name, text, hex.EncodeToString(sum[:])}
}

// What scripts answer; see session.lua.
const (
	short    = 1
	fenced   = -1
	gone     = -2
	full     = -3
	sealed   = -4
	sequence = -5
	unknown  = -6
	behind   = -100 // and less: behind with Last -100 - answer
)

// large is the size of a call that goes over a connection of its own: on the shared one all others would wait behind it.
const large = 64 << 10

// run runs a script. An error is that of the context, of the connection or of the engine. Nothing is sent if the context has ended, and
// nothing is repeated: the caller is told, and decides.
func (s *Store) run(ctx context.Context, sc *script, keys, args []string) (rueidis.RedisResult, error) {
	if err := s.enter(ctx); err != nil {
		return rueidis.RedisResult{}, err
	}
	size := 0
	for _, a := range args {
		size += len(a)
	}
	r := s.client.Do(ctx, s.command("EVALSHA", sc.sha, keys, args, size >= large))
	if unknownScript(r.Error()) {
		if err := ctx.Err(); err != nil {
			return rueidis.RedisResult{}, err
		}
		r = s.client.Do(ctx, s.command("EVAL", sc.text, keys, args, size >= large))
	}
	return r, sc.failed(r.Error())
}

func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return eventstore.ErrClosed
	}
	return nil
}

func (s *Store) command(verb, sc string, keys, args []string, alone bool) rueidis.Completed {
	c := s.client.B().Arbitrary(verb, sc, strconv.Itoa(len(keys))).Keys(keys...).Args(args...)
	if alone {
		return c.Blocking()
	}
	return c.Build()
}

func unknownScript(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	return ok && e.IsNoScript()
}

// outOfMemory reports whether the engine refused a script because its memory is full.
func outOfMemory(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(e.Error(), "OOM ")
}

func (sc *script) failed(err error) error {
	switch {
	case err == nil:
		return nil
	case outOfMemory(err):
		return fmt.Errorf("redisstore: %s: %w: %w", sc.name, eventstore.ErrFull, err)
	}
	return fmt.Errorf("redisstore: %s: %w", sc.name, err)
}

// code runs a script that answers with a number.
func (s *Store) code(ctx context.Context, sc *script, key string, args ...string) (int64, error) {
	r, err := s.run(ctx, sc, []string{key}, args)
	if err != nil {
		return 0, err
	}
	n, err := r.AsInt64()
	return n, sc.failed(err)
}
