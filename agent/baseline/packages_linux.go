package baseline

import (
	"bufio"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// dpkg is where Debian's package database is.
const dpkg = "/var/lib/dpkg"

// generated are files that are made anew from those of the packages, and that no package has.
var generated = []string{"/etc/ld.so.cache"}

// packages returns the digest of the package database; empty if the host has none that is known.
func (h Host) packages() (string, error) {
	sum, err := digest(filepath.Join(h.Root, dpkg, "status"))
	if errors.Is(err, fs.ErrNotExist) {
		return h.rpmDigest()
	}
	return sum, err
}

// withoutPackages leaves out the changes that the package database records: files with the checksum that it has, and
// directories and links that a package brought. What has rights of its own stays: a package's script can make anything.
func (h Host) withoutPackages(ctx context.Context, changes []change) ([]change, error) {
	wanted := map[string]bool{}
	for _, c := range changes {
		wanted[c.path] = true
	}
	record := h.recorded
	if h.rpmDatabase() != "" {
		record = func(wanted map[string]bool) (map[string]string, map[string]bool, error) {
			return h.recordedByRPM(ctx, wanted)
		}
	}
	sums, listed, err := record(wanted)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(changes, func(c change) bool {
		switch {
		case slices.Contains(generated, c.path):
			return true
		case c.now == nil:
			return false // a package that was removed leaves no record: somebody has to look
		case sums[c.path] != "":
			sum, err := checksum(filepath.Join(h.Root, c.path), len(sums[c.path]))
			return err == nil && sum == sums[c.path] && c.now.uid == 0
		default:
			return listed[c.path] && !c.now.privileged() && (c.before == nil || c.before.digest == "") && !isFile(c.now)
		}
	}), nil
}

func isFile(e *entry) bool { return e.mode&unix.S_IFMT == unix.S_IFREG }

// recorded returns the checksums of files, and which paths belong to a package, of those that are wanted.
func (h Host) recorded(wanted map[string]bool) (sums map[string]string, listed map[string]bool, err error) {
	sums, listed = map[string]string{}, map[string]bool{}
	note := func(path string) (string, bool) {
		for _, p := range []string{path, "/usr" + path} { // a file of /lib is one of /usr/lib
			if wanted[p] {
				return p, true
			}
		}
		return "", false
	}
	read := func(pattern string, line func(string)) error {
		files, err := filepath.Glob(filepath.Join(h.Root, dpkg, pattern))
		for _, file := range files {
			if err := eachLine(file, line); err != nil {
				return err
			}
		}
		return err
	}
	err = errors.Join(
		read("info/*.list", func(line string) {
			if path, ok := note(line); ok {
				listed[path] = true
			}
		}),
		read("info/*.md5sums", func(line string) {
			sum, rest, _ := strings.Cut(line, "  ")
			if path, ok := note("/" + rest); ok {
				sums[path] = sum
			}
		}),
		// Conffiles: " /etc/ssh/sshd_config 0123…".
		read("status", func(line string) {
			if fields := strings.Fields(line); strings.HasPrefix(line, " /") && len(fields) >= 2 {
				if path, ok := note(fields[0]); ok {
					sums[path] = fields[1]
				}
			}
		}),
	)
	return sums, listed, err
}

func eachLine(path string, do func(string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 1<<16), longestLine)
	for lines.Scan() {
		do(lines.Text())
	}
	return lines.Err()
}

// checksum returns what a package database has of a file, which has so many digits: MD5, which only tells packages' own
// files apart here, or SHA-256.
func checksum(path string, digits int) (string, error) {
	if digits == 2*sha256.Size {
		return digest(path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := md5.Sum(data)
	return hex.EncodeToString(sum[:]), nil
}
