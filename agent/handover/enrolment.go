package handover

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/internal/atomicfile"
)

const (
	nextFile    = "next.yaml"
	currentFile = "enrolment.yaml"
	// ownToken is the prefix of the names of the files with the agent's own tokens; see Config.TokenPath.
	ownToken = "token"
)

// Enrolment is what the agent needs to work for a management cluster.
type Enrolment struct {
	// Offer is the id of the offer that the enrolment comes from.
	Offer string `yaml:"offer"`
	// Server, CAData and Token have the same meaning as in the configuration; the token is the agent's own.
	Server string `yaml:"server"`
	CAData string `yaml:"caData"`
	Token  string `yaml:"token"`
	// Enrolment is the URL of the management cluster's enrolment server; empty if it has none.
	Enrolment string `yaml:"enrolment,omitempty"`
	// InsteadOf identifies the configuration at the time when the offer was accepted.
	InsteadOf string `yaml:"insteadOf"`
}

// Store keeps two enrolments on disk. The next one (next.yaml) comes from an offer that the agent has accepted. The
// current one (enrolment.yaml) is in force: the agent has changed sides to it. Without a current one, the agent works
// for the management cluster in its configuration.
//
// Each file is written atomically, and both the file and its directory are synced before the agent reports anything
// about it. Changing sides is a single rename. If the configuration changes afterwards, it overrides both files.
type Store struct {
	base config.Config
}

// NewStore returns the store of an agent with this configuration. It reads nothing yet.
func NewStore(base config.Config) Store { return Store{base} }

// Current returns the enrolment that replaces the configuration, or nil if there is none.
func (s Store) Current() (*Enrolment, error) { return s.read(currentFile) }

// Next returns the enrolment that the agent has accepted, or nil if there is none.
func (s Store) Next() (*Enrolment, error) { return s.read(nextFile) }

// Prepare stores the next enrolment. Once it returns without an error, the enrolment survives a power failure.
func (s Store) Prepare(e Enrolment) error {
	e.InsteadOf = s.digest()
	data, err := yaml.Marshal(e)
	if err != nil {
		return fmt.Errorf("storing the next enrolment: %w", err)
	}
	if err := errors.Join(atomicfile.Write(s.path(nextFile), data, 0o600), s.sync()); err != nil {
		return fmt.Errorf("storing the next enrolment: %w", err)
	}
	return nil
}

// Forget removes the next enrolment; it is not an error if there is none.
func (s Store) Forget() error {
	if err := os.Remove(s.path(nextFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the next enrolment: %w", err)
	}
	return s.sync()
}

// Change makes the next enrolment the current one, permanently.
func (s Store) Change() error {
	if err := os.Rename(s.path(nextFile), s.path(currentFile)); err != nil {
		return fmt.Errorf("changing to the next enrolment: %w", err)
	}
	return s.sync()
}

// Config returns the configuration of an agent that works for e. All settings that don't concern the management cluster
// come from the agent's configuration file.
func (s Store) Config(e *Enrolment) config.Config {
	c := s.base
	c.Server, c.CAData, c.Token = e.Server, e.CAData, e.Token
	c.Enrolment = e.Enrolment // the configuration's URL belongs to the management cluster that the host has left
	// A token is sent only to its own management cluster, so each cluster has its own file.
	sum := sha256.Sum256([]byte(e.Server + "\x00" + e.CAData))
	c.TokenFile = ownToken + "-" + hex.EncodeToString(sum[:8])
	return c
}

// Tidy removes the tokens of management clusters that the agent has left, and partial files that a killed agent left
// behind. c is the effective configuration.
func (s Store) Tidy(c config.Config) error {
	entries, err := os.ReadDir(s.base.StateDir)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		path := s.path(entry.Name())
		if path != c.TokenPath() && stale(entry.Name()) {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}

// stale reports whether a file of this name holds a credential that may be out of use.
func stale(name string) bool {
	half, isHalf := strings.CutPrefix(name, ".")
	switch {
	case name == ownToken, strings.HasPrefix(name, ownToken+"-"):
		return true
	case isHalf:
		return strings.HasPrefix(half, ownToken+"-") || strings.HasPrefix(half, nextFile+"-")
	}
	return false
}

// read reads one of the files. It ignores a file that is older than the current configuration.
func (s Store) read(name string) (*Enrolment, error) {
	path := s.path(name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the enrolment: %w", err)
	}
	e := &Enrolment{}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(e); err != nil {
		// The parser's message may quote the file, which holds a credential.
		return nil, fmt.Errorf("reading %s: it is damaged; remove it, so that the agent uses the management cluster in its "+
			"configuration", path)
	}
	if e.InsteadOf != s.digest() {
		return nil, nil
	}
	c := s.Config(e)
	if err := c.Check(); err != nil || e.Token == "" || e.Offer == "" {
		return nil, fmt.Errorf("reading %s: it is not an enrolment; remove it, so that the agent uses the management "+
			"cluster in its configuration", path)
	}
	return e, nil
}

// digest identifies the configuration's management cluster and token. The token is included so that enrolling the host
// again by hand takes effect.
func (s Store) digest() string {
	sum := sha256.Sum256(
		[]byte(strings.Join([]string{s.base.Server, s.base.CAData, s.base.Namespace, s.base.Host, s.base.Token}, "\x00")))
	return hex.EncodeToString(sum[:])
}

func (s Store) path(name string) string { return filepath.Join(s.base.StateDir, name) }

// sync makes a rename or removal survive a power failure.
func (s Store) sync() error {
	dir, err := os.Open(s.base.StateDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
