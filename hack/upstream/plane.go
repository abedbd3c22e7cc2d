package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// plane is a management plane of its own, in a temporary directory.
type plane struct {
	// capstan is the path of the program; home is its home directory.
	capstan, home string
}

// downTimeout limits how long a plane with all hosts and clusters may take to stop.
const downTimeout = 5 * time.Minute

func (p plane) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.capstan, args...)
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+p.home)
	return cmd
}

// run runs capstan and returns what it printed to stdout.
func (p plane) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := p.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("capstan %s: %w\n%s", strings.Join(args, " "), err, errs.Bytes())
	}
	return out.Bytes(), nil
}

func (p plane) up(ctx context.Context, hosts int) error {
	_, err := p.run(ctx, "up", "--hosts", strconv.Itoa(hosts))
	return err
}

// down stops the plane and removes it completely, even if the run was interrupted.
func (p plane) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), downTimeout)
	defer cancel()
	_, err := p.run(ctx, "down", "--delete")
	return err
}

func (p plane) kubeconfig() string { return filepath.Join(p.home, "kubeconfig") }

// providers returns the providers that clusterctl finds on the plane.
func (p plane) providers(ctx context.Context) ([]installed, error) {
	out, err := p.run(ctx, "kubectl", "get", "providers.clusterctl.cluster.x-k8s.io", "-A", "-o", "json")
	if err != nil {
		return nil, err
	}
	return readProviders(out)
}

func readProviders(data []byte) (all []installed, err error) {
	var list struct {
		Items []struct {
			ProviderName string `json:"providerName"`
			Type         string `json:"type"`
			Version      string `json:"version"`
		} `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("reading the plane's providers: %w", err)
	}
	for _, i := range list.Items {
		all = append(all, installed{Name: i.ProviderName, Type: i.Type, Version: i.Version})
	}
	return all, nil
}
