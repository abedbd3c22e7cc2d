package enroll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// UnitName is the name of the agent's systemd unit.
const UnitName = "capstan-agent.service"

// UnitDir is the directory for an administrator's units.
const UnitDir = "/etc/systemd/system"

// systemctlLimit bounds one call of systemctl.
const systemctlLimit = time.Minute

// Systemd runs the agent as a systemd unit.
type Systemd struct {
	// Program is the path of the agent.
	Program string
	// Dir is the directory for the unit; default UnitDir.
	Dir string
	// Systemctl is the program to call; default systemctl.
	Systemctl string
}

func (s Systemd) systemctl() string {
	if s.Systemctl != "" {
		return s.Systemctl
	}
	return "systemctl"
}

func (s Systemd) path() string {
	if s.Dir != "" {
		return filepath.Join(s.Dir, UnitName)
	}
	return filepath.Join(UnitDir, UnitName)
}

// Check returns an error if there is no systemd.
func (s Systemd) Check() error {
	if _, err := exec.LookPath(s.systemctl()); err != nil {
		return errors.New("this computer has no systemd: enroll with --no-service, and start the agent by other means")
	}
	return nil
}

// Start writes, enables and starts the unit.
func (s Systemd) Start(ctx context.Context, configPath string) error {
	text, err := unitText(s.Program, configPath)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path()), 0o755); err != nil {
		return fmt.Errorf("creating the directory of units: %w", err)
	}
	if err := atomicfile.Write(s.path(), []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the unit: %w", err)
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", UnitName}, {"restart", UnitName}} {
		if err := s.call(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func (s Systemd) call(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, systemctlLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, s.systemctl(), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// Advice returns the command that shows the agent's log.
func (Systemd) Advice() string { return "journalctl -u " + UnitName }

// unitText returns the unit for a program and a configuration. Pure.
func unitText(program, configPath string) (string, error) {
	for _, path := range []string{program, configPath} {
		if !filepath.IsAbs(path) || strings.ContainsAny(path, " \t\n\"'\\%$;") {
			return "", fmt.Errorf(
				"the path %q is not allowed in a unit: choose one without spaces and special characters",
				path,
			)
		}
	}
	command := program
	if configPath != config.DefaultPath {
		command += " --config " + configPath
	}
	return `[Unit]
Description=Capstan's agent
Documentation=https://github.com/capstan-dev/capstan/blob/main/docs/owned-hosts.md
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=` + command + `
Restart=always
RestartSec=1
KillMode=process

[Install]
WantedBy=multi-user.target
`, nil
}
