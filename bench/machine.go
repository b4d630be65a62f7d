package main

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// machine describes this machine, as far as the system allows.
func machine() results.Machine {
	m := results.Machine{Cores: runtime.NumCPU(), CPU: fieldOf("/proc/cpuinfo", "model name"), System: runtime.GOOS}
	if kb, err := strconv.ParseInt(strings.TrimSuffix(fieldOf("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.Memory = kb << 10
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System = "Linux " + strings.TrimSpace(string(release))
	}
	return m
}

// fieldOf returns the value of the first line "name: value" of a file.
func fieldOf(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// measured are the modules whose versions are recorded.
var measured = []string{
	"github.com/modelcontextprotocol/go-sdk", "github.com/mark3labs/mcp-go",
	"github.com/go-chi/chi/v5", "github.com/labstack/echo/v4", "github.com/gin-gonic/gin", "github.com/redis/rueidis",
}

// versions returns the versions of Go and of the measured modules.
func versions() map[string]string {
	v := map[string]string{"go": strings.TrimPrefix(runtime.Version(), "go")}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, dep := range info.Deps {
		for _, name := range measured {
			if dep.Path == name {
				v[name] = dep.Version
			}
		}
	}
	return v
}
