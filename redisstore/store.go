package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Config is what New starts with. Only Client is required.
type Config struct {
	// Client is yours: it decides about addresses, credentials, TLS and timeouts. Close does not close it.
	Client rueidis.Client
	// Prefix begins all keys. It has neither '{' nor '}'. Defaults to "rejoin".
	Prefix string
	// SessionBytes limits what the logs of one session hold in the engine. An event that does not fit is refused with eventstore.ErrFull, unless
	// it ends its stream. An urgent one may exceed the limit by a sixteenth. Defaults to 4 MiB. Off (negative): no limit.
	SessionBytes int64
	// BacklogBytes limits the log of a standalone stream, whose oldest events go first. Defaults to 256 KiB. Off: no limit.
	BacklogBytes int64
	// AllowEviction accepts an engine that evicts keys when its memory is full. Sessions can disappear then: their clients are told 404, and
	// calls that run are lost. Without it, New returns an error.
	AllowEviction bool
	// Logger gets what New finds. Defaults to slog.Default.
	Logger *slog.Logger
}

// Store is a [cluster.Directory] and its [eventstore.Store] in one engine. It is safe for concurrent use, and leaves no goroutine behind.
type Store struct {
	client   rueidis.Client
	keys     keyspace
	limits   limits
	sessions registry
	closed   atomic.Bool
}

// limits are bounds in bytes, as the scripts take them; "0": none.
type limits struct{ session, urgent, backlog string }

var (
	_ cluster.Directory  = (*Store)(nil)
	_ eventstore.Store   = (*Store)(nil)
	_ eventstore.Limited = (*handle)(nil)
)

// checkTimeout limits the check by New.
const checkTimeout = 10 * time.Second

// New returns a store after it has asked the engine for its version, whether it evicts, and whether it keeps what it is given, and has tried
// all that the scripts need. An error says what to change. It does not wait for an engine that is away: after 10 s that is an error too.
func New(cfg Config) (*Store, error) {
	switch {
	case cfg.Client == nil:
		return nil, errors.New("redisstore: Config.Client is missing: give it a rueidis.Client")
	case strings.ContainsAny(cfg.Prefix, "{}"):
		return nil, fmt.Errorf("redisstore: Config.Prefix: %q has a brace, which the engine would take for a hash tag", cfg.Prefix)
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "rejoin"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	session := bound(cfg.SessionBytes, 4<<20)
	s := &Store{
		client: cfg.Client,
		keys:   newKeyspace(cfg.Prefix, cfg.Client.Mode()),
		limits: limits{text(session), text(session + session/16), text(bound(cfg.BacklogBytes, 256<<10))},
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	if err := s.check(ctx, &cfg); err != nil {
		return nil, err
	}
	return s, nil
}

func bound(n, standard int64) int64 {
	switch {
	case n < 0:
		return 0
	case n == 0:
		return standard
	}
	return n
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

// Close implements eventstore.Store. It closes the directory too, for this process. The Client stays open.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}
