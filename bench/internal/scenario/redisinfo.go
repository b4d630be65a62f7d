package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// redis is a connection to the engine, to ask it what it has done.
type redis struct{ client rueidis.Client }

// redisUse is what an engine has used since its start, and what it holds.
type redisUse struct {
	Calls  int64         // of scripts: the operations of redisstore
	CPU    time.Duration // user and system
	Memory int64         // bytes that it has allocated
}

// redisAt connects to an engine. With an empty address there is none, and nothing was used.
func redisAt(addr string) (redis, error) {
	if addr == "" {
		return redis{}, nil
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	return redis{client}, err
}

func (r redis) close() {
	if r.client != nil {
		r.client.Close()
	}
}

func (r redis) use(ctx context.Context) (u redisUse, err error) {
	if r.client == nil {
		return u, nil
	}
	info, err := r.info(ctx)
	if err != nil {
		return u, err
	}
	var errs []error
	number := func(name string) float64 {
		v, err := strconv.ParseFloat(info[name], 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s in the engine's INFO: %w", name, err))
		}
		return v
	}
	u.CPU = time.Duration((number("used_cpu_user") + number("used_cpu_sys")) * 1e9)
	u.Memory = int64(number("used_memory"))
	for name, value := range info { // "cmdstat_evalsha": "calls=21,usec=175,…"
		if name != "cmdstat_evalsha" && name != "cmdstat_eval" {
			continue
		}
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		u.Calls, errs = u.Calls+n, append(errs, err)
	}
	return u, errors.Join(errs...)
}

func (r redis) info(ctx context.Context) (map[string]string, error) {
	text, err := r.client.Do(ctx, r.client.B().Info().Section("server", "cpu", "memory", "commandstats").Build()).ToString()
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

// RedisVersion returns the version of the engine that would be started, or an error that says what to install.
func RedisVersion(ctx context.Context) (version string, err error) {
	addr, end, err := startRedis(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, end()) }()
	r, err := redisAt(addr)
	if err != nil {
		return "", err
	}
	defer r.close()
	info, err := r.info(ctx)
	return info["redis_version"], err
}

// withRedis calls do with the address of a new engine, for at most 3 minutes. A subject that uses none gets "".
func withRedis(
	ctx context.Context, name string, do func(ctx context.Context, addr string) (map[string]float64, error),
) (values map[string]float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if s, _ := subject.Find(name); !s.Redis {
		return do(ctx, "")
	}
	addr, end, err := startRedis(ctx)
	if err != nil {
		return nil, err
	}
	values, err = do(ctx, addr)
	return values, errors.Join(err, end())
}

// withRedisServer runs a job against a new server and, if its subject uses one, a new engine.
func withRedisServer[J any](ctx context.Context, spec proc.Spec, cpu int, job func(target) J) (map[string]float64, error) {
	return withRedis(ctx, spec.Subject, func(ctx context.Context, addr string) (map[string]float64, error) {
		spec.Redis = addr
		return withServer(ctx, spec, cpu, func(t target) J {
			t.Redis = addr
			return job(t)
		})
	})
}

// costs measures what the engine does from now on, if it is a process.
type costs struct {
	redis
	before redisUse
}

func (t target) costs(ctx context.Context) (c costs, err error) {
	if c.redis, err = redisAt(t.Redis); err == nil {
		c.before, err = c.use(ctx)
	}
	return c, err
}

// add adds what the engine has done for each of n units, and ends the measurement.
func (c *costs) add(ctx context.Context, values map[string]float64, n float64) error {
	defer c.close()
	if c.client == nil {
		return nil
	}
	after, err := c.use(ctx)
	values["trips"] = float64(after.Calls-c.before.Calls) / n
	values["redis cpu"] = float64((after.CPU - c.before.CPU).Nanoseconds()) / 1e3 / n
	return err
}
