// Package state stores the contents of a dock in one file. Each write replaces the file atomically.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Version is the version of the file's format.
const Version = 1

// State is the desired state of a dock. Clone copies everything that may change.
type State struct {
	Version      int                 `json:"version"`
	Hosts        map[string]Host     `json:"hosts"`
	Balancers    map[string]Balancer `json:"balancers"`
	Relays       map[string]Relay    `json:"relays"`
	Units        map[string]Unit     `json:"units"`
	LastHost     netip.Addr          `json:"lastHost"`     // the address given last
	LastBalancer netip.Addr          `json:"lastBalancer"` // the address given last
}

// Host is a host that exists.
type Host struct {
	Address  netip.Addr `json:"address"`
	Run      bool       `json:"run"`                // the host should run
	Deleting bool       `json:"deleting,omitempty"` // the host is being deleted and never runs again
	Env      []string   `json:"env,omitempty"`
}

// Balancer is a balancer that exists. Its relay is in Relays, under BalancerRelay.
type Balancer struct {
	Address  netip.Addr `json:"address"`
	Backends []string   `json:"backends"`
}

// Relay is a relay that exists.
type Relay struct {
	Port   int    `json:"port"`
	Target string `json:"target"`
	// Address is "ADDRESS:PORT" on the machine for a publication. If it is empty, the relay uses Port on loopback.
	Address  string `json:"address,omitempty"`
	Announce bool   `json:"announce,omitempty"`
}

// Unit is a unit that should run; its fields are those of dock.Unit.
type Unit struct {
	Argv    []string      `json:"argv"`
	Env     []string      `json:"env,omitempty"`
	Dir     string        `json:"dir,omitempty"`
	LogFile string        `json:"logFile,omitempty"`
	Grace   time.Duration `json:"grace,omitempty"`
}

// Equal reports whether a running process of one unit could also serve as the process of the other.
func (u Unit) Equal(v Unit) bool {
	return slices.Equal(u.Argv, v.Argv) && slices.Equal(u.Env, v.Env) && u.Dir == v.Dir && u.LogFile == v.LogFile &&
		u.Grace == v.Grace
}

// BalancerRelay returns the name of a balancer's relay. It is not a DNS label, so no other relay can have it.
func BalancerRelay(balancer string) string { return "balancer/" + balancer }

// New returns the state of an empty dock.
func New() *State {
	return &State{
		Version: Version, Hosts: map[string]Host{}, Balancers: map[string]Balancer{}, Relays: map[string]Relay{},
		Units: map[string]Unit{},
	}
}

// Clone copies s. Slices in it are replaced, never changed in place.
func (s *State) Clone() *State {
	c := *s
	c.Hosts, c.Balancers, c.Relays, c.Units = maps.Clone(s.Hosts), maps.Clone(s.Balancers), maps.Clone(s.Relays),
		maps.Clone(s.Units)
	return &c
}

// Load reads the file at path. If the file is missing, Load returns a New state.
func Load(path string) (*State, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return New(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the dock's state: %w", err)
	}
	s := New()
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("reading the dock's state: %s is damaged (%w): repair it, or remove everything with "+
			"`capstan down --delete`", path, err)
	}
	if s.Hosts == nil || s.Balancers == nil || s.Relays == nil || s.Units == nil {
		return nil, fmt.Errorf("reading the dock's state: %s is damaged (one of its maps is missing): repair it, or remove "+
			"everything with `capstan down --delete`", path)
	}
	if s.Version != Version {
		return nil, fmt.Errorf("reading the dock's state: %s has version %d, but this program knows %d: use the "+
			"program that wrote it", path, s.Version, Version)
	}
	return s, nil
}

// Save replaces the file at path. After a crash or an error, the file holds either the old or the new state.
func (s *State) Save(path string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the dock's state: %w", err)
	}
	temp := path + ".new"
	if err := writeSynced(temp, append(data, '\n')); err != nil {
		os.Remove(temp)
		return fmt.Errorf("writing the dock's state: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return fmt.Errorf("writing the dock's state: %w", err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("writing the dock's state: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("writing the dock's state: %w", err)
	}
	return nil
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
