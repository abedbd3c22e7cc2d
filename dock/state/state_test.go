package state

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func example() *State {
	s := New()
	s.Hosts["host-1"] = Host{Address: netip.MustParseAddr("10.231.1.1"), Run: true, Env: []string{"A=1"}}
	s.Balancers["lb"] = Balancer{Address: netip.MustParseAddr("10.231.16.1"), Backends: []string{"10.231.1.1:6443"}}
	s.Relays[BalancerRelay("lb")] = Relay{Port: 20001, Target: "10.231.16.1:6443"}
	s.Units["plane"] = Unit{Argv: []string{"/bin/x"}}
	s.LastHost = netip.MustParseAddr("10.231.1.1")
	return s
}

func TestWhatIsSavedIsLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	want := example()
	for range 2 {
		if err := want.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Load(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v", info.Mode())
	}
}

func TestNoFileIsANewState(t *testing.T) {
	got, err := Load(filepath.Join(t.TempDir(), "state.json"))
	if err != nil || !reflect.DeepEqual(got, New()) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAFileFromACrashIsIgnored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	if err := example().Save(path); err != nil {
		t.Fatal(err)
	}
	// A crash while writing leaves this.
	if err := os.WriteFile(path+".new", []byte(`{"version": 1, "hos`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Load(path); err != nil || !reflect.DeepEqual(got, example()) {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := New().Save(path); err != nil {
		t.Fatal(err)
	}
	if got, err := Load(path); err != nil || len(got.Hosts) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAFailedSaveLeavesTheOldState(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	if err := example().Save(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+".new", 0o700); err != nil { // blocks the write for every user, even root
		t.Fatal(err)
	}
	if err := New().Save(path); err == nil {
		t.Fatal("Save succeeded although it could not write")
	}
	if got, err := Load(path); err != nil || len(got.Hosts) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestADamagedFileIsAnErrorThatSaysWhatToDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	for text, want := range map[string]string{
		`{"version": 1, "hos`: "damaged", `{"version": 7}`: "version 7", ``: "damaged",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: error is %v", text, err)
		}
	}
}

func TestACloneIsIndependent(t *testing.T) {
	s := example()
	c := s.Clone()
	delete(c.Hosts, "host-1")
	c.Units["other"] = Unit{}
	c.LastHost = netip.Addr{}
	if !reflect.DeepEqual(s, example()) {
		t.Errorf("a change of the clone changed the original to %+v", s)
	}
}
