// Package redisstore keeps the sessions of a cluster in Redis or Valkey: a [cluster.Directory] and its [eventstore.Store] in one.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"redis:6379"}})
//	store, err := redisstore.New(redisstore.Config{Client: client})
//	srv, err := rejoin.NewServer(app, rejoin.Config{
//		Store:   store,
//		Cluster: &rejoin.Cluster{Name: "reports", Self: "http://" + podIP + ":8080"},
//	})
//
// It needs Redis 7.0 or newer, or Valkey 7.2 or newer: one server, one with replicas under Sentinel, or a Redis Cluster. docs/redis.md says how
// to set it up, how much memory it takes, and what is lost when.
//
// # What is in the engine
//
// A session is one hash with a time to live, under a key that is made from a SHA-256 of its name: the engine is told neither session ids nor
// users. It has the record and the logs. The events of one Append are one field, a chunk. Each operation is one script with one key (Find: three
// of one hash tag), so its check and its effect are one step.
//
// The processes of a cluster are another hash. In a Redis Cluster all that exists 32 times, each with a hash tag of its own, because shards lose
// data apart: a session is in one part, and beside it are the counts and the age that tell whether that part has lost data.
//
// # Calls
//
// Nothing is sent for a call whose context has ended. No call is repeated, and none is marked as one that the client may repeat. A call of more
// than 64 KiB goes over a connection of its own from the client's pool. All calls go to the primary server.
package redisstore
