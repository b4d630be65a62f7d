package subject

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/redis/rueidis"

	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/redisstore"
)

// overRedis are servers in a cluster whose engine is another process.
var overRedis = func() (all []Subject) {
	for _, s := range []Subject{
		{Name: "json", Base: bareJSON},
		{Name: "sse", Base: bareStore, Stream: true},
	} {
		s.Primes, s.Stores, s.Closes, s.Session, s.Redis = true, true, true, true, true
		mode, kind := modeOf(s), s.Name
		s.Name, s.New = "rejoin-redis-"+kind, func(o Options) (http.Handler, error) {
			e, err := newRedis(o)
			if err != nil {
				return nil, err
			}
			return newMember(mode, o, e, cmp.Or(o.Self, nowhere))
		}
		s.Notes = "The server of rejoin-" + kind + " in a cluster, over redisstore and a redis-server on the same machine that keeps nothing on disk."
		all = append(all, s)
		s.Name, s.Forward, s.New = "rejoin-redis-forwarded-"+kind, true, func(o Options) (http.Handler, error) {
			owners, err := newRedis(o)
			if err != nil {
				return nil, err
			}
			others, err := newRedis(o)
			if err != nil {
				return nil, err
			}
			return newPair(mode, o, owners, others)
		}
		s.Notes = "Two servers of rejoin-redis-" + kind + " in one process, each on a port of its own. One owns all " +
			"sessions, the other gets all requests and forwards them."
		all = append(all, s)
	}
	return all
}()

// newRedis returns a store over an engine, with a client of its own, as docs/redis.md advises.
func newRedis(o Options) (eventstore.Store, error) {
	if o.Redis == "" {
		return nil, errors.New("this subject needs the address of an engine")
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{o.Redis}, ConnWriteTimeout: 2 * time.Second, DisableCache: true})
	if err != nil {
		return nil, err
	}
	return redisstore.New(redisstore.Config{Client: client, SessionBytes: o.StoreBytes, Logger: discardLogger()})
}
