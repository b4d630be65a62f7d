package redisstore

import (
	"bytes"
	"log/slog"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatTheCheckSays(t *testing.T) {
	good := info{"redis_version": "7.0.15", "maxmemory_policy": "noeviction", "maxmemory": "1000000", "role": "master", "connected_slaves": "0"}
	for name, c := range map[string]struct {
		change   info
		settings map[string]string
		allow    bool
		err      string
		logged   []string
	}{
		"as it should be":         {info{}, nil, false, "", []string{"level=INFO", "Redis 7.0.15", "nothing, or unknown"}},
		"always":                  {info{"aof_enabled": "1"}, map[string]string{"appendfsync": "always"}, false, "", []string{"everything"}},
		"every second":            {info{"aof_enabled": "1"}, map[string]string{"appendfsync": "everysec"}, false, "", []string{"all but the last second"}},
		"snapshots":               {info{}, map[string]string{"save": "3600 1"}, false, "", []string{"last snapshot"}},
		"too old":                 {info{"redis_version": "6.2.14"}, nil, false, "Redis 6.2.14 is too old: Redis 7.0, Valkey 7.2", nil},
		"Valkey":                  {info{"redis_version": "7.2.4", "valkey_version": "8.1.0"}, nil, false, "", []string{"Valkey 8.1.0"}},
		"Valkey, too old":         {info{"redis_version": "7.2.4", "valkey_version": "7.1.9"}, nil, false, "Valkey 7.1.9 is too old", nil},
		"Redis 10":                {info{"redis_version": "10.0.1"}, nil, false, "", []string{"Redis 10.0.1"}},
		"no version":              {info{"redis_version": ""}, nil, false, "the version is no version", nil},
		"evicts":                  {info{"maxmemory_policy": "allkeys-lru"}, nil, false, "set maxmemory-policy to noeviction", nil},
		"evicts, which is wanted": {info{"maxmemory_policy": "volatile-lru"}, nil, true, "", []string{"level=WARN", "volatile-lru"}},
		"would evict":             {info{"maxmemory_policy": "volatile-lru", "maxmemory": "0"}, nil, false, "", []string{"level=WARN", "volatile-lru"}},
		"replicas": {
			info{"connected_slaves": "2"}, map[string]string{"min-replicas-to-write": "0"}, false, "", []string{"level=WARN", "min-replicas-max-lag"},
		},
		"replicas, which must answer": {info{"connected_slaves": "2"}, map[string]string{"min-replicas-to-write": "1"}, false, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			i := info{}
			for _, from := range []info{good, c.change} {
				maps.Copy(i, from)
			}
			var out bytes.Buffer
			cfg := &Config{Logger: slog.New(slog.NewTextHandler(&out, nil)), AllowEviction: c.allow}
			err := checkServer("host:1", i, func(name string) string { return c.settings[name] }, cfg)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorContains(t, err, "host:1")
				return
			}
			require.NoError(t, err)
			for _, want := range c.logged {
				require.Contains(t, out.String(), want)
			}
			if len(c.logged) == 0 || c.logged[0] != "level=WARN" {
				require.NotContains(t, out.String(), "level=WARN")
			}
		})
	}
}

func TestInfo(t *testing.T) {
	require.Equal(t, info{"redis_version": "7.0.15", "os": "Linux: x"}, parseInfo("# Server\r\nredis_version:7.0.15\r\nos:Linux: x\r\n\r\n# Empty\r\n"))
}

func TestNewRefusesAConfig(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "Config.Client is missing")
}
