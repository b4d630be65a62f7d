//go:build redis

package redisstore_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/internal/redistest"
	"github.com/rejoin-mcp/rejoin/redisstore"
)

// rule is the ACL of docs/redis.md.
func rule(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/redis.md")
	require.NoError(t, err)
	text := regexp.MustCompile("(?s)ACL SETUSER [^`]*").FindString(string(page))
	require.NotEmpty(t, text, "docs/redis.md has no ACL")
	return strings.Fields(text)
}

func asUser(t testing.TB, server *redistest.Server, name, password string) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, Username: name, Password: password, PipelineMultiplex: -1, AlwaysPipelining: true, DisableCache: true,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// The user of docs/redis.md may do all that is needed, and nothing with other keys.
func TestTheUserOfTheDocuments(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	admin := connect(t, server.Addr())
	acl := rule(t)
	_, err := server.Do(t.Context(), acl...)
	require.NoError(t, err)
	user, password := acl[2], ""
	for _, word := range acl {
		if p, ok := strings.CutPrefix(word, ">"); ok {
			password = p
		}
	}
	client := asUser(t, server, user, password)
	clustertest.Run(t, clustertest.Features{}, func(t testing.TB) clustertest.Engine {
		flush(t, admin)
		s := open(t, client, redisstore.Config{})
		return clustertest.Engine{Directory: s, Store: s, Forget: func() { flush(t, admin) }}
	})
	for _, command := range [][]string{
		{"SET", "other", "1"}, {"GET", "other"}, {"KEYS", "*"}, {"FLUSHALL"}, {"CONFIG", "SET", "maxmemory", "1"},
		{"EVAL", "return redis.call('KEYS', '*')", "0"}, {"EVAL", "return redis.call('GET', KEYS[1])", "1", "other"},
	} {
		err := client.Do(t.Context(), client.B().Arbitrary(command...).Build()).Error()
		require.Error(t, err)
		require.Regexp(t, "NOPERM|can't (run|access)", err.Error(), "%v", command)
	}
	_, err = redisstore.New(redisstore.Config{Client: client, Prefix: "other"})
	require.ErrorContains(t, err, "docs/redis.md")
}

func TestAnEngineThatEvictsIsRefused(t *testing.T) {
	server := redistest.New(t, redistest.Options{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"}})
	client := connect(t, server.Addr())
	_, err := redisstore.New(redisstore.Config{Client: client})
	require.ErrorContains(t, err, "set maxmemory-policy to noeviction")
	open(t, client, redisstore.Config{AllowEviction: true})
	_, err = redisstore.New(redisstore.Config{Client: client, Prefix: "a{b}"})
	require.ErrorContains(t, err, "Config.Prefix")
}
