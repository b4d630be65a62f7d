package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// clusterParts is how many parts the keys have in a Redis Cluster. Each part has a hash tag of its own, and so can be on another shard.
const clusterParts = 32

// keyspace names the keys. All keys of a script have the hash tag of one part. A part has sessions, and for itself a copy of what is known of
// processes and the age: shards lose data apart.
type keyspace struct {
	prefix string
	parts  int
}

func newKeyspace(prefix string, mode rueidis.ClientMode) keyspace {
	if mode == rueidis.ClientModeCluster {
		return keyspace{prefix, clusterParts}
	}
	return keyspace{prefix, 1}
}

func (k keyspace) part(n int) string { return k.prefix + ":{" + strconv.Itoa(n) + "}:" }

// session returns the part and the key of a session. The engine is not told its name: a session id is a credential.
func (k keyspace) session(name string) (part int, key string) {
	sum := sha256.Sum256([]byte(name))
	part = (int(sum[30])<<8 | int(sum[31])) % k.parts
	return part, k.part(part) + "s:" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

func (k keyspace) members(part int, cluster string) string { return k.part(part) + "m:" + cluster }

func (k keyspace) age(part int) string { return k.part(part) + "age" }

// owner is a fence as the engine has it. Both parts of it are compared at once.
func owner(f eventstore.Fence) string { return strconv.FormatUint(f.Epoch, 10) + ":" + f.Incarnation }

// parseOwner undoes owner.
func parseOwner(text string) (eventstore.Fence, error) {
	epoch, incarnation, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(epoch, 10, 64)
	return eventstore.Fence{Incarnation: incarnation, Epoch: n}, err
}

// writer is the fence of a handle: "" if it has none.
func writer(f eventstore.Fence) string {
	if f == (eventstore.Fence{}) {
		return ""
	}
	return owner(f)
}
