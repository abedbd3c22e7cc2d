package state

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// FuzzLoad checks that a state that can be read stays the same when it is written and read again, and always has its
// maps.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"version":1,"hosts":{"a":{"address":"10.231.1.1","run":true}},"lastHost":"10.231.1.1"}`))
	f.Add([]byte(`{"version":1,"hosts":null,"units":{"plane":{"argv":["/a"],"grace":5}}}`))
	f.Add([]byte(`{"version":1,"relays":{"balancer/x":{"port":1,"target":"a"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "state.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Load(path)
		if err != nil {
			return
		}
		if s.Hosts == nil || s.Balancers == nil || s.Relays == nil || s.Units == nil {
			t.Fatalf("a map is missing: %+v", s)
		}
		if err := s.Save(path); err != nil {
			t.Fatal(err)
		}
		again, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again.Hosts, s.Hosts) || again.LastHost != s.LastHost || len(again.Units) != len(s.Units) {
			t.Fatalf("%+v became %+v", s, again)
		}
	})
}
