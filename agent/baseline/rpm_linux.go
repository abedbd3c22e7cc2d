package baseline

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/environ"
)

// rpmFiles are the paths of rpm's package database in its three formats.
var rpmFiles = []string{
	"/usr/lib/sysimage/rpm/rpmdb.sqlite", "/var/lib/rpm/rpmdb.sqlite", "/usr/lib/sysimage/rpm/Packages.db",
	"/var/lib/rpm/Packages.db", "/var/lib/rpm/Packages",
}

// rpmQuery prints the digest and the path of each file of each package. Directories have no digest.
const rpmQuery = "[%{FILEDIGESTS} %{FILENAMES}\\n]"

// rpmLimit bounds the query, which takes seconds on a slow computer.
const rpmLimit = time.Minute

// rpmDatabase returns the path of rpm's package database; empty if the host has none.
func (h Host) rpmDatabase() string {
	for _, file := range rpmFiles {
		if info, err := os.Stat(filepath.Join(h.Root, file)); err == nil && info.Mode().IsRegular() {
			return filepath.Join(h.Root, file)
		}
	}
	return ""
}

// rpmDigest returns the digest of the database and its log, which may hold the latest changes.
func (h Host) rpmDigest() (string, error) {
	file := h.rpmDatabase()
	if file == "" {
		return "", nil
	}
	sum, err := digest(file)
	if err != nil {
		return "", err
	}
	log, err := digest(file + "-wal")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return sum + log, nil
}

// recordedByRPM looks up the wanted paths: it returns the checksums of files, and which paths belong to a package. It
// runs the host's own rpm; if the machine replaced that program, the comparison reports it, because no package vouches
// for the new file.
func (h Host) recordedByRPM(
	ctx context.Context, wanted map[string]bool,
) (sums map[string]string, listed map[string]bool, err error) {
	sums, listed = map[string]string{}, map[string]bool{}
	ctx, cancel := context.WithTimeout(ctx, rpmLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "rpm", "--root", h.Root, "-qa", "--queryformat", rpmQuery)
	cmd.Env, cmd.WaitDelay = environ.Child(), time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("asking rpm for the files of packages: %w", err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 0, 1<<16), longestLine)
	for lines.Scan() {
		sum, path, _ := strings.Cut(lines.Text(), " ")
		if !wanted[path] {
			continue
		}
		listed[path] = true
		if sum != "" {
			sums[path] = sum
		}
	}
	if err := cmp.Or(errors.Join(lines.Err(), cmd.Wait()), ctx.Err()); err != nil {
		return nil, nil, fmt.Errorf("asking rpm for the files of packages: %w", err)
	}
	return sums, listed, nil
}
