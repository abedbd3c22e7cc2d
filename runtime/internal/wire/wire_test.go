package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

const apiVersion, kind = "hooks.runtime.cluster.x-k8s.io/v1alpha1", "BeforeClusterCreateResponse"

func TestRead(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		body io.Reader
		hint int64
		want error
		size int
	}{
		"a body below the limit":                    {strings.NewReader("12345"), -1, nil, 5},
		"a body of exactly the limit":               {strings.NewReader("1234567890"), 10, nil, 10},
		"a body one byte above the limit":           {strings.NewReader("12345678901"), -1, ErrTooLarge, 0},
		"a body announced as larger than the limit": {strings.NewReader(""), 11, ErrTooLarge, 0},
		"a body announced as smaller than it is":    {strings.NewReader("12345678901"), 3, ErrTooLarge, 0},
		"nothing":                                   {strings.NewReader(""), 0, nil, 0},
		"a body that can't be read":                 {iotest.ErrReader(broken), -1, broken, 0},
	} {
		data, err := Read(c.body, 10, c.hint)
		if !errors.Is(err, c.want) || len(data) != c.size {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
}

func TestClip(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"a text that is short enough":       {"abc", 3, "abc"},
		"a text that is too long":           {"abcdef", 5, "ab…"},
		"a limit in the middle of a letter": {"ääää", 6, "ä…"},
		"no room":                           {"abcdef", 0, "…"},
	} {
		if got := Clip(c.text, c.limit); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestUpgradeCluster(t *testing.T) {
	older := `{"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"Cluster","metadata":{"name":"blue","namespace":"default","uid":"u"},
		"spec":{"paused":true,"topology":{"class":"quick","version":"v1.36.3","controlPlane":{"replicas":3},
			"workers":{"machineDeployments":[{"class":"w","name":"md","replicas":2,"failureDomain":"zone-b","nodeDrainTimeout":"10s"}]}}},
		"status":{"failureDomains":{"zone-a":{"controlPlane":true}}}}`
	body, err := UpgradeCluster(
		[]byte(`{"kind":"BeforeClusterCreateRequest","settings":{"a":"b"},"cluster":` + older + `}`))
	if err != nil {
		t.Fatal(err)
	}
	request := &runtimehooksv1.BeforeClusterCreateRequest{}
	if err := Decode(body, request, apiVersion, "BeforeClusterCreateRequest"); err != nil {
		t.Fatal(err)
	}
	topology := request.Cluster.Spec.Topology
	if request.Cluster.APIVersion != clusterv1.GroupVersion.String() || topology.ClassRef.Name != "quick" ||
		*topology.ControlPlane.Replicas != 3 ||
		topology.Workers.MachineDeployments[0].FailureDomain != "zone-b" || !*request.Cluster.Spec.Paused ||
		request.Settings["a"] != "b" {
		t.Errorf("got %+v", request)
	}
}

func TestUpgradeClusterLeavesOthersAlone(t *testing.T) {
	for name, text := range map[string]string{
		"v1beta2":                    `{"cluster":{"apiVersion":"cluster.x-k8s.io/v1beta2"}}`,
		"no Cluster":                 `{"x":"cluster.x-k8s.io/v1beta1"}`,
		"v1beta1 in another place":   `{"cluster":{"apiVersion":"cluster.x-k8s.io/v1beta2","metadata":{"name":"cluster.x-k8s.io/v1beta1"}}}`,
		"no JSON":                    `"cluster.x-k8s.io/v1beta1" junk`,
		"a Cluster that is a number": `{"cluster":1,"x":"cluster.x-k8s.io/v1beta1"}`,
	} {
		got, err := UpgradeCluster([]byte(text))
		if err != nil || string(got) != text {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if _, err := UpgradeCluster([]byte(`{"cluster":{"apiVersion":"cluster.x-k8s.io/v1beta1","spec":7}}`)); err == nil {
		t.Error("a Cluster that can't be decoded went through")
	}
}

// Whatever is accepted is one JSON object of the right kind, and decodes to the same object after encoding it again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"status":"Success","retryAfterSeconds":5,"message":"m"}`, `{"apiVersion":"a/b/c"}`, `{"kind":"X"}`, `{}{}`,
		`null`, ``, `[1]`,
		`{"retryAfterSeconds":1e3}`, `{"status":"Success","Status":"Failure"}`, "{\"message\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		response := &runtimehooksv1.BeforeClusterCreateResponse{}
		if Decode(data, response, apiVersion, kind) != nil {
			return
		}
		if !json.Valid(data) || bytes.TrimLeft(data, " \t\r\n")[0] != '{' {
			t.Fatalf("accepted %q", data)
		}
		if response.Kind != "" && response.Kind != kind || response.APIVersion != "" && response.APIVersion != apiVersion {
			t.Fatalf("accepted a %s %s", response.APIVersion, response.Kind)
		}
		encoded, err := Encode(response, apiVersion, kind)
		if err != nil {
			t.Fatal(err)
		}
		again := &runtimehooksv1.BeforeClusterCreateResponse{}
		if err := Decode(encoded, again, apiVersion, kind); err != nil || *again != *response {
			t.Fatalf("%+v became %+v, %v", response, again, err)
		}
	})
}

// Upgrading never breaks a body that the decoder accepts, and its result is JSON.
func FuzzUpgradeCluster(f *testing.F) {
	f.Add([]byte(`{"cluster":{"apiVersion":"cluster.x-k8s.io/v1beta1","spec":{"topology":{"class":"x","version":"v1"}}}}`))
	f.Add(
		[]byte(
			`{"cluster":{"apiVersion":"cluster.x-k8s.io/v1beta1","spec":{"paused":true,"controlPlaneEndpoint":{"host":"h","port":1}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		upgraded, err := UpgradeCluster(data)
		if err != nil || bytes.Equal(upgraded, data) {
			return
		}
		request := &runtimehooksv1.BeforeClusterCreateRequest{}
		if err := json.Unmarshal(upgraded, request); err != nil {
			t.Fatalf("%q became %q: %v", data, upgraded, err)
		}
	})
}

func FuzzClip(f *testing.F) {
	f.Add("some text", 4)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		clipped := Clip(text, limit)
		if len(clipped) > max(limit, len("…")) && clipped != text {
			t.Fatalf("Clip(%q, %d) has %d bytes", text, limit, len(clipped))
		}
		if utf8.ValidString(text) && !utf8.ValidString(clipped) {
			t.Fatalf("Clip(%q, %d) is not valid", text, limit)
		}
	})
}
