package redisstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// check asks every server of the engine.
func (s *Store) check(ctx context.Context, cfg *Config) error {
	nodes := s.client.Nodes()
	for _, address := range slices.Sorted(maps.Keys(nodes)) {
		text, err := nodes[address].Do(ctx, nodes[address].B().Info().Build()).ToString()
		if err != nil {
			return fmt.Errorf("redisstore: INFO of %s: %w", address, err)
		}
		if err := checkServer(address, parseInfo(text), setting(ctx, nodes[address]), cfg); err != nil {
			return err
		}
	}
	for part := range s.keys.parts {
		if _, err := s.run(ctx, probeScript, []string{s.keys.part(part) + "probe"}, nil); err != nil {
			return fmt.Errorf("%w (the scripts need the commands of the ACL in docs/redis.md)", err)
		}
	}
	return nil
}

// info is what INFO has answered.
type info map[string]string

func parseInfo(text string) info {
	i := info{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			i[name] = value
		}
	}
	return i
}

// setting returns a function that asks for a setting. Where CONFIG is not allowed, as with managed services, it returns "".
func setting(ctx context.Context, node rueidis.Client) func(name string) string {
	return func(name string) string {
		settings, err := node.Do(ctx, node.B().ConfigGet().Parameter(name).Build()).AsStrMap()
		if err != nil {
			return ""
		}
		return settings[name]
	}
}

// checkServer judges one server.
func checkServer(address string, i info, setting func(string) string, cfg *Config) error {
	name, version, err := i.version()
	if err != nil {
		return fmt.Errorf("redisstore: %s: %w", address, err)
	}
	log := cfg.Logger.With("server", address, "engine", name+" "+version)
	if policy, memory := i["maxmemory_policy"], i["maxmemory"]; policy != "noeviction" && policy != "" {
		switch {
		case memory != "0" && memory != "" && !cfg.AllowEviction:
			return fmt.Errorf("redisstore: %s evicts keys when it has used its %s bytes of memory (maxmemory-policy %s), and sessions would disappear: "+
				"set maxmemory-policy to noeviction, or Config.AllowEviction", address, memory, policy)
		default:
			log.Warn("rejoin: the engine will evict sessions if its memory is limited: set maxmemory-policy to noeviction", "maxmemory-policy", policy,
				"maxmemory", memory)
		}
	}
	if i["role"] == "master" && i["connected_slaves"] != "0" && i["connected_slaves"] != "" && setting("min-replicas-to-write") == "0" {
		log.Warn("rejoin: a server that was cut off from its replicas goes on taking writes that a failover will lose, and may give a session a second "+
			"owner meanwhile: set min-replicas-to-write to 1 and min-replicas-max-lag below the lease", "min-replicas-to-write", 0)
	}
	log.Info("rejoin: the engine was checked", "role", i["role"], "keeps", i.persistence(setting))
	return nil
}

// version returns the engine's name and version, or an error that says which one is needed.
func (i info) version() (name, version string, err error) {
	name, version, least := "Redis", i["redis_version"], [2]int{7, 0}
	if v := i["valkey_version"]; v != "" {
		name, version, least = "Valkey", v, [2]int{7, 2}
	}
	var got [2]int
	for n, part := range strings.SplitN(version, ".", 3) {
		if n < len(got) {
			if got[n], err = strconv.Atoi(part); err != nil {
				return name, version, fmt.Errorf("%s %q: the version is no version", name, version)
			}
		}
	}
	if slices.Compare(got[:], least[:]) < 0 {
		return name, version, fmt.Errorf("%s %s is too old: Redis 7.0, Valkey 7.2 or a newer one is needed, for the flags of scripts", name, version)
	}
	return name, version, nil
}

// persistence says what the server has after a restart.
func (i info) persistence(setting func(string) string) string {
	switch {
	case i["aof_enabled"] == "1" && setting("appendfsync") == "always":
		return "everything (appendonly, appendfsync always)"
	case i["aof_enabled"] == "1":
		return "all but the last second or so (appendonly)"
	case setting("save") != "":
		return "what was there at its last snapshot (save)"
	}
	return "nothing, or unknown: owners restore their sessions after a restart"
}
