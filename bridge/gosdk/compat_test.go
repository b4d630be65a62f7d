package gosdk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestSetField(t *testing.T) {
	type options struct {
		Known  bool
		hidden bool
	}
	var o options
	if !setField(&o, "Known", true) || !o.Known {
		t.Error("it was not set")
	}
	if setField(&o, "Known", 1) || setField(&o, "Unknown", true) || setField(&o, "hidden", true) || o.hidden {
		t.Error("it was set")
	}
}

func TestARestoredSessionHasItsNegotiatedVersion(t *testing.T) {
	for _, negotiated := range []string{"2025-06-18", ""} {
		st := &mcp.ServerSessionState{InitializeParams: &mcp.InitializeParams{ProtocolVersion: "2025-01-01"}}
		setVersion(st, negotiated)
		want := "2025-01-01 " + negotiated
		got := field(st, "NegotiatedProtocolVersion")
		if !got.IsValid() {
			if want = negotiated + " "; negotiated == "" {
				want = "2025-01-01 "
			}
		}
		version := st.InitializeParams.ProtocolVersion + " "
		if got.IsValid() {
			version += got.String()
		}
		if version != want {
			t.Errorf("got %q, want %q", version, want)
		}
	}
}

// Tests that TestTheSDKsVersionsThatAreSupported skips: itself, and tests that take long.
const slow = "TestTheSDKsVersionsThatAreSupported|TestTenThousandSessionsLeaveNothing|TestNotificationsBeyondTheLimitAreDropped|TestBacklog"

// The workspace has the newest version, go.mod requires the lowest, and each other .mod file one in between.
func TestTheSDKsVersionsThatAreSupported(t *testing.T) {
	for mod, version := range map[string]string{"go.mod": "v1.6.1", "v1.7.0.mod": "v1.7.0"} {
		t.Run(version, func(t *testing.T) {
			for _, pattern := range []string{"*.go", "*.mod", "*.sum"} { // so that go test knows the files that a cached result depends on
				files, err := filepath.Glob(pattern)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					if _, err := os.ReadFile(f); err != nil {
						t.Fatal(err)
					}
				}
			}
			run := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "go", args...)
				cmd.Env = append(os.Environ(), "GOWORK=off")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
				}
				return string(out)
			}
			got := strings.TrimSpace(run("list", "-modfile="+mod, "-m", "-f", "{{.Version}}", "github.com/modelcontextprotocol/go-sdk"))
			if got != version {
				t.Fatalf("%s requires %s", mod, got)
			}
			out := run("test", "-modfile="+mod, "-v", "-skip=^("+slow+")$", ".")
			for _, name := range []string{
				"TestWire", "TestMessagesOf16CallsOfASessionStayOnTheirStreams", "TestALiveSessionMovesWithItsSavedState", "TestClientsOfAllErasOnOneURL",
				"TestEndsCross", "TestTasksCross", "TestLongCalls", "TestTasksOfTenants", "TestAdoptions", "TestTheRealClientAtAnAdoption",
			} {
				if !strings.Contains(out, "--- PASS: "+name+" ") {
					t.Errorf("%s did not run:\n%s", name, out)
				}
			}
			if strings.Contains(out, "--- SKIP") {
				t.Error("a test was skipped")
			}
		})
	}
}
