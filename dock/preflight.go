//go:build linux

package dock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/environ"
)

// preflightLimit bounds the whole check.
const preflightLimit = 20 * time.Second

// Preflight finds out what keeps a dock from working on this machine. In temporary namespaces, it tries everything that
// a dock does, and it leaves nothing behind. The error wraps one *Problem for each missing thing, with the command that
// fixes it.
func Preflight(ctx context.Context, o Options) error {
	o, err := o.check()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, preflightLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, o.Binary, "check", "--json", "--home", o.Home,
		"--min-free", strconv.FormatUint(o.MinFree, 10), "--inotify", strconv.Itoa(o.InotifyInstances))
	cmd.Env, cmd.WaitDelay = environ.Child(), time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var problems []*Problem
	if jsonErr := json.Unmarshal(out, &problems); jsonErr != nil {
		return fmt.Errorf("checking this machine: %w: %s", errors.Join(err, jsonErr), stderr.String())
	}
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}
