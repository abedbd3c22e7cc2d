package cri

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// addresses are the addresses at which a server listens.
type addresses struct {
	main, hollow, real *string
	// mainHollow says whether containers of the main address are hollow; nil means as recorded.
	mainHollow *bool
}

func addFlags(flags *flag.FlagSet) *addresses {
	a := &addresses{
		main: flags.String("listen", DefaultListen, "`address` to serve at, a unix socket"),
		hollow: flags.String("listen-hollow", HollowListen, "`address` where containers other than components are hollow: "+
			"reported as running without a process; empty for none"),
		real: flags.String("listen-real", RealListen, "`address` where containers run from their images; empty for none"),
	}
	flags.BoolFunc("hollow", "whether containers requested at --listen are hollow; by default, the value recorded in "+
		"the state directory", func(s string) error {
		switch s {
		case "true", "false":
			hollow := s == "true"
			a.mainHollow = &hollow
			return nil
		}
		return errors.New("it must be true or false")
	})
	return a
}

// open listens at all addresses.
func (a *addresses) open(s *Server) ([]Endpoint, error) {
	hollow, err := s.store.hollow(a.mainHollow)
	if err != nil {
		return nil, err
	}
	var endpoints []Endpoint
	for _, e := range []struct {
		address string
		hollow  bool
	}{{*a.main, hollow}, {*a.hollow, true}, {*a.real, false}} {
		if e.address == "" {
			continue
		}
		listener, err := listenUnix(e.address)
		if err != nil {
			for _, opened := range endpoints {
				opened.Listener.Close()
			}
			return nil, err
		}
		endpoints = append(endpoints, Endpoint{Listener: listener, Hollow: e.hollow})
	}
	return endpoints, nil
}

// hollow returns whether containers of the main address are hollow: as requested, or else as recorded when the
// directory was created. Without a record, a directory that already has pods has hollow ones, and a new directory has
// real ones.
func (s store) hollow(asked *bool) (bool, error) {
	if asked != nil {
		return *asked, nil
	}
	switch recorded := s.list("mode"); {
	case len(recorded) == 1:
		return recorded[0] != modeReal, nil
	case s.used():
		return true, s.saveList("mode", []string{modeHollow})
	}
	return false, s.saveList("mode", []string{modeReal})
}

// The possible contents of the record.
const (
	modeHollow = "hollow"
	modeReal   = "real"
)

// used reports whether pods exist.
func (s store) used() bool {
	files, err := filepath.Glob(s.sandboxFile("*"))
	return err == nil && len(files) > 0
}

// listenUnix listens at the address and replaces the socket of a stopped server. (New has made sure that no other
// server runs.)
func listenUnix(address string) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, "unix://")
	if !ok || !filepath.IsAbs(path) {
		return nil, fmt.Errorf("--listen %s: give an absolute path as unix:///path", address)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the socket's directory: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the old socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return listener, os.Chmod(path, 0o600)
}
