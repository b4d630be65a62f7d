//go:build unix

package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

// MasterName is the name under which the sentinels of StartSentinel know their primary.
const MasterName = "redistest"

// StartReplica starts a replica of a primary and returns when it has the primary's data and is sent what changes. What it is a replica of stands in
// its own configuration file, which sentinels change when they make it a primary.
func StartReplica(ctx context.Context, primary *Server, o Options) (*Server, error) {
	r, err := start(ctx, o, func() (string, error) { return fmt.Sprintf("%s\nreplicaof %s", defaults, words(primary)), nil })
	if err != nil {
		return nil, err
	}
	err = r.await(ctx, func() error {
		return errors.Join(
			r.says(ctx, "master_link_status:up", "INFO", "replication"),
			primary.says(ctx, fmt.Sprintf("port=%d,state=online", r.port), "INFO", "replication"),
		)
	})
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// StartSentinel starts count sentinels that watch a primary under MasterName, and returns when each of them knows the others and the replicas that
// the primary has. A majority of them must agree that the primary is down, which they take it to be after a second without an answer; then they
// make a replica the primary, and what was the primary a replica of it once that answers again.
func StartSentinel(ctx context.Context, primary *Server, count int, o Options) ([]*Server, error) {
	info, err := primary.Do(ctx, "INFO", "replication")
	if err != nil {
		return nil, err
	}
	_, replicas, _ := strings.Cut(info, "connected_slaves:")
	replicas, _, _ = strings.Cut(replicas, "\r\n")
	lines := func() (string, error) {
		return fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]d\nsentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 5000",
			MasterName, words(primary), count/2+1), nil
	}
	all, err := startAll(count, func() (*Server, error) { return start(ctx, o, lines, "--sentinel") })
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		err := s.await(ctx, func() error {
			return errors.Join(
				s.says(ctx, "\nflags\nmaster\n", "SENTINEL", "MASTER", MasterName),
				s.says(ctx, "\nnum-slaves\n"+replicas+"\n", "SENTINEL", "MASTER", MasterName),
				s.says(ctx, fmt.Sprintf("\nnum-other-sentinels\n%d\n", count-1), "SENTINEL", "MASTER", MasterName),
				s.says(ctx, "OK", "SENTINEL", "CKQUORUM", MasterName),
			)
		})
		if err != nil {
			return nil, errors.Join(err, closeAll(all))
		}
	}
	return all, nil
}

// StartCluster starts a Redis Cluster of masters, each of which has the same share of the slots, and returns when all of them say that it is
// complete. A master that does not answer for two seconds counts as down, and with it the cluster.
func StartCluster(ctx context.Context, masters int, o Options) ([]*Server, error) {
	bus := map[*Server]int{} // their second ports
	all, err := startAll(masters, func() (*Server, error) {
		var port int
		s, err := start(ctx, o, func() (lines string, err error) {
			port, err = freePort()
			return fmt.Sprintf("%s\ncluster-enabled yes\ncluster-announce-ip 127.0.0.1\ncluster-node-timeout 2000\ncluster-port %d", defaults, port), err
		})
		bus[s] = port
		return s, err
	})
	if err != nil {
		return nil, err
	}
	const slots = 16384
	for i, s := range all {
		first, last := slots*i/masters, slots*(i+1)/masters-1
		commands := []string{fmt.Sprintf("CLUSTER SET-CONFIG-EPOCH %d", i+1), fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", first, last)}
		if i > 0 {
			commands = append(commands, fmt.Sprintf("CLUSTER MEET %s %d", words(all[0]), bus[all[0]]))
		}
		for _, command := range commands {
			if _, err := s.Do(ctx, strings.Fields(command)...); err != nil {
				return nil, errors.Join(fmt.Errorf("redistest: %s: %w", command, err), closeAll(all))
			}
		}
	}
	if err := WaitCluster(ctx, all); err != nil {
		return nil, errors.Join(err, closeAll(all))
	}
	return all, nil
}

// WaitCluster waits until each of the servers says that their cluster is complete: after a master was started again, for example.
func WaitCluster(ctx context.Context, all []*Server) error {
	for _, s := range all {
		err := s.await(ctx, func() error {
			return errors.Join(
				s.says(ctx, "cluster_state:ok", "CLUSTER", "INFO"),
				s.says(ctx, fmt.Sprintf("cluster_known_nodes:%d\r\n", len(all)), "CLUSTER", "INFO"),
				s.says(ctx, "cluster_slots_ok:16384", "CLUSTER", "INFO"),
			)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Addrs are the addresses of several servers, as clients take them.
func Addrs(all []*Server) []string {
	var addrs []string
	for _, s := range all {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// startAll starts several servers, or none.
func startAll(count int, start func() (*Server, error)) ([]*Server, error) {
	var all []*Server
	for range count {
		s, err := start()
		if err != nil {
			return nil, errors.Join(err, closeAll(all))
		}
		all = append(all, s)
	}
	return all, nil
}

func closeAll(all []*Server) error {
	var err error
	for _, s := range all {
		err = errors.Join(err, s.Close())
	}
	return err
}

// words are the address of a server as configuration files and commands write it.
func words(s *Server) string {
	host, port, _ := net.SplitHostPort(s.Addr()) // it is well-formed
	return host + " " + port
}
