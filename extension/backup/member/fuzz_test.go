package member

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// FuzzParse: whatever a tenant writes into etcd.yaml, the data directory is a clean path below the host's root, and
// parsing the same text again has the same result.
func FuzzParse(f *testing.F) {
	f.Add([]byte("spec:\n  containers:\n  - command: [etcd, --name=a, --initial-advertise-peer-urls=https://a:2380, " +
		"--data-dir=/var/lib/etcd]\n"))
	f.Add([]byte("spec: {containers: [{args: [--data-dir=/../x, --name=a, --initial-advertise-peer-urls=b]}]}"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parse(data)
		again, errAgain := parse(data)
		if (err == nil) != (errAgain == nil) || !reflect.DeepEqual(m, again) {
			t.Fatalf("parsing twice gives %+v, then %+v", m, again)
		}
		if err != nil {
			return
		}
		if m.Name == "" || m.PeerURL == "" || m.data == "" || !filepath.IsLocal(m.data) || filepath.Clean(m.data) != m.data ||
			strings.ContainsRune(m.data, 0) {
			t.Fatalf("got %+v", m)
		}
	})
}
