package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// spy is a way to an engine that notes all strings and bytes that the engine gets, but for the data of events and the state.
type spy struct {
	cluster.Directory
	eventstore.Store
	*notes
}

// notes are what the engine got, of all processes.
type notes struct {
	mu   sync.Mutex
	seen []string
}

func (s *notes) note(all ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range all {
		s.seen = append(s.seen, fmt.Sprintf("%+v", one))
	}
}

// has reports whether the engine got a text, in whatever it got.
func (s *notes) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(strings.Join(s.seen, "\n"), text)
}

func (s spy) Put(ctx context.Context, r *cluster.Record, ttl time.Duration) error {
	s.note(*r, string(r.About))
	return s.Directory.Put(ctx, r, ttl)
}

func (s spy) Find(ctx context.Context, session string, by cluster.Process) (cluster.Found, error) {
	s.note(session, by)
	return s.Directory.Find(ctx, session, by)
}

func (s spy) Adopt(
	ctx context.Context, session string, from eventstore.Fence, to cluster.Member, ttl time.Duration,
) (*cluster.Record, []cluster.Stream, error) {
	s.note(session, from, to)
	return s.Directory.Adopt(ctx, session, from, to, ttl)
}

func (s spy) Save(ctx context.Context, session string, fence eventstore.Fence, version uint64, state []byte) error {
	s.note(session, fence)
	return s.Directory.Save(ctx, session, fence, version, state)
}

func (s spy) Touch(ctx context.Context, held []cluster.Held, ttl time.Duration) ([]cluster.Held, error) {
	s.note(held)
	return s.Directory.Touch(ctx, held, ttl)
}

func (s spy) Release(ctx context.Context, session string, fence eventstore.Fence) error {
	s.note(session, fence)
	return s.Directory.Release(ctx, session, fence)
}

func (s spy) End(ctx context.Context, session string, fence eventstore.Fence) error {
	s.note(session, fence)
	return s.Directory.End(ctx, session, fence)
}

func (s spy) Log(k eventstore.Key) eventstore.Log {
	s.note(k)
	return s.Store.Log(k)
}

func (s spy) DropSession(ctx context.Context, session string) error {
	s.note(session)
	return s.Store.DropSession(ctx, session)
}

// Whoever reads the engine can serve no session, and learns no user: the engine gets hashes.
func TestTheEngineLearnsNoSecrets(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		engine := &notes{}
		o := options{config: func(c *rejoin.Config) {
			dir, _ := c.Store.(cluster.Directory)
			c.Store, c.Principal = spy{dir, c.Store, engine}, kit.ByUser
		}}
		of := watch(&o)
		w := newWorld(t, o)
		const user = kit.Secret
		sessions := []string{w.openFor(t, 0, user), w.openFor(t, 0, user), w.openFor(t, 0, user)}
		for _, id := range sessions {
			require.NotEmpty(t, id)
			w.ask(t, 0, http.MethodPost, id, kit.CallBody("1", `{"_meta":{"progressToken":1}}`), "X-User", user)
			tool := w.processes[0].next()
			require.NoError(t, tool.Progress(1, 0, ""))
			require.NoError(t, of(0).last().s.Notify(t.Context(), "notifications/x", nil))
			require.NoError(t, of(0).last().s.SaveState([]byte("state")))
			elapse(time.Second)
		}
		w.kill(0)
		for _, id := range sessions {
			require.Equal(t, served, w.ask(t, 1, http.MethodPost, id, kit.Ping, "X-User", user).Summary())
			w.ask(t, 1, http.MethodGet, id, "", "X-User", user)
			require.Equal(t, "204 ended", w.ask(t, 1, http.MethodDelete, id, "", "X-User", user).Summary())
		}
		const guess = nobody
		require.Equal(t, gone, w.ping(t, 1, guess))
		elapse(time.Hour)
		for _, secret := range append(sessions, user, guess) {
			require.False(t, engine.has(secret), secret)
		}
		engine.mu.Lock()
		defer engine.mu.Unlock()
		hashes := map[string]int{}
		for _, seen := range engine.seen {
			if _, rest, ok := strings.Cut(seen, `"principal":"`); ok {
				hash, _, _ := strings.Cut(rest, `"`)
				hashes[hash]++
			}
		}
		require.GreaterOrEqual(t, len(hashes), 3, "sessions of one user cannot be told from those of others: %v", hashes)
	})
}
