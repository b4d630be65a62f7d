package proxy

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// manifest is what a Deployment or a Service of Kubernetes has, as far as docs/replicas.md uses it.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		Replicas int
		Selector any
		Strategy struct {
			RollingUpdate struct {
				MaxUnavailable *int `yaml:"maxUnavailable"`
				MaxSurge       int  `yaml:"maxSurge"`
			} `yaml:"rollingUpdate"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []container
			}
		}
		Ports []struct {
			Port       int
			TargetPort int `yaml:"targetPort"`
		}
	}
}

type container struct {
	Name, Image string
	Env         []struct {
		Name      string
		ValueFrom struct {
			FieldRef struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		ContainerPort int `yaml:"containerPort"`
	}
	ReadinessProbe struct {
		HTTPGet struct {
			Path string
			Port int
		} `yaml:"httpGet"`
		PeriodSeconds int `yaml:"periodSeconds"`
	} `yaml:"readinessProbe"`
}

// The manifest of docs/replicas.md is one, it has no field that this test does not know, and it fits the Go code of the page.
func TestTheManifestOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/replicas.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?ms)^```yaml\n(apiVersion: .*?)^```").FindSubmatch(page)
	require.NotNil(t, block)
	deployment, service := readManifests(t, block[1])
	code := bytes.Join(regexp.MustCompile("(?ms)^```go\n.*?^```").FindAll(page, -1), nil)

	require.Equal(t, "apps/v1 Deployment", deployment.APIVersion+" "+deployment.Kind)
	require.Equal(t, "v1 Service", service.APIVersion+" "+service.Kind)
	labels := map[string]any{}
	for name, value := range deployment.Spec.Template.Metadata.Labels {
		labels[name] = value
	}
	require.NotEmpty(t, labels)
	require.Equal(t, map[string]any{"matchLabels": labels}, deployment.Spec.Selector)
	require.Equal(t, labels, service.Spec.Selector)
	require.Greater(t, deployment.Spec.Replicas, 1)
	rolling := deployment.Spec.Strategy.RollingUpdate
	require.NotNil(t, rolling.MaxUnavailable)
	require.Zero(t, *rolling.MaxUnavailable)
	require.Positive(t, rolling.MaxSurge, "else nothing could be replaced")

	require.Len(t, deployment.Spec.Template.Spec.Containers, 1)
	c := deployment.Spec.Template.Spec.Containers[0]
	self := regexp.MustCompile(`net\.JoinHostPort\(os\.Getenv\("(\w+)"\), "(\d+)"\)`).FindSubmatch(code)
	require.NotNil(t, self)
	require.Len(t, c.Env, 1)
	require.Equal(t, string(self[1]), c.Env[0].Name)
	require.Equal(t, "status.podIP", c.Env[0].ValueFrom.FieldRef.FieldPath)
	port, err := strconv.Atoi(string(self[2]))
	require.NoError(t, err)
	require.Contains(t, string(code), `net.Listen("tcp", ":`+string(self[2])+`")`)
	require.Len(t, c.Ports, 1)
	require.Equal(t, port, c.Ports[0].ContainerPort)
	require.Len(t, service.Spec.Ports, 1)
	require.Equal(t, port, service.Spec.Ports[0].TargetPort)
	require.Equal(t, port, c.ReadinessProbe.HTTPGet.Port)
	require.Contains(t, string(code), `"GET `+c.ReadinessProbe.HTTPGet.Path+`"`)

	waits := waitsOf(t, code)
	require.Len(t, waits, 4, "until it is settled, of Drain, before Shutdown, of Shutdown")
	require.Greater(t, waits[1], waits[0], "they run at the same time")
	require.Greater(t, time.Duration(deployment.Spec.Template.Spec.Grace)*time.Second, waits[1]+waits[2]+waits[3])
}

// readManifests reads two manifests. Fields that are not those of manifest are errors.
func readManifests(t *testing.T, text []byte) (first, second manifest) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	require.NoError(t, d.Decode(&first))
	require.NoError(t, d.Decode(&second))
	require.ErrorIs(t, d.Decode(new(manifest)), io.EOF, "there is no third one")
	return first, second
}

// waitsOf lists the times in the code that the page gives for SIGTERM, in their order.
func waitsOf(t *testing.T, code []byte) (waits []time.Duration) {
	t.Helper()
	_, code, found := bytes.Cut(code, []byte("settled :="))
	require.True(t, found)
	for _, m := range regexp.MustCompile(`(?:time\.After|context\.WithTimeout)\((?:context\.Background\(\), )?(\d+ ?\* ?)?time\.(Second|Minute)\)`).FindAllSubmatch(code, -1) {
		unit := map[string]time.Duration{"Second": time.Second, "Minute": time.Minute}[string(m[2])]
		n := 1
		if len(m[1]) > 0 {
			var err error
			n, err = strconv.Atoi(string(bytes.Trim(m[1], " *")))
			require.NoError(t, err)
		}
		waits = append(waits, time.Duration(n)*unit)
	}
	return waits
}
