package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// open are the permissions that let others in; writable are those that let them change something.
const open, writable fs.FileMode = 0o077, 0o022

// Prepare creates the home directory if it is missing and ensures that only this user has access, because it contains
// all keys and tokens of the plane. An existing home must be a directory that belongs to this user. If others may read
// it, Prepare removes their permissions and says so in note. Prepare fails if others may have written to the directory,
// or if the directory contains something other than a home. Errors say what to do.
func (d Dir) Prepare() (note string, err error) {
	dir := string(d)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", fmt.Errorf("making the home directory: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("making the home directory: %w", err)
	}
	if err := checkWay(filepath.Dir(dir)); err != nil {
		return "", err
	}
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
		return "", fmt.Errorf("the home directory %s is a link or a file: name the directory itself with --home or "+
			"CAPSTAN_HOME",
			dir)
	}
	if err != nil {
		return "", fmt.Errorf("looking at the home directory: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("looking at the home directory: %w", err)
	}
	if uid := owner(info); uid != os.Geteuid() {
		return "", fmt.Errorf("the home directory %s belongs to user %d: run capstan as that user, or choose another with "+
			"--home",
			dir, uid)
	}
	if info.Mode().Perm()&open != 0 {
		if note, err = tighten(f, info.Mode().Perm()); err != nil {
			return "", err
		}
	}
	return note, d.closeSecrets()
}

// checkWay rejects a path on which anybody could replace the home with another directory.
func checkWay(path string) error {
	for {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("looking at the directories above the home directory: %w", err)
		}
		if info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("everybody may change %s, which contains the home directory: choose another home with "+
				"--home, or run: chmod o-w %s", path, path)
		}
		if path == filepath.Dir(path) {
			return nil
		}
		path = filepath.Dir(path)
	}
}

// tighten removes the permissions of others from a home to which others could not write.
func tighten(f *os.File, perm fs.FileMode) (note string, err error) {
	names, err := f.Readdirnames(-1)
	if err != nil {
		return "", fmt.Errorf("looking at the home directory: %w", err)
	}
	if len(names) > 0 && perm&writable != 0 {
		return "", fmt.Errorf("others may write into the home directory %s (mode %04o): look at what is in it, "+
			"then run: chmod 700 %s", f.Name(), perm, f.Name())
	}
	if len(names) > 0 && !isHome(names) {
		return "", fmt.Errorf("the directory %s contains other files than Capstan's, and others may read it (mode "+
			"%04o): choose another with --home, or, if this one is for Capstan alone, run: chmod 700 %s",
			f.Name(), perm, f.Name())
	}
	if err := f.Chmod(0o700); err != nil {
		return "", fmt.Errorf("closing the home directory to others: %w", err)
	}
	return fmt.Sprintf("The home directory %s was open to others (mode %04o); it no longer is.", f.Name(), perm), nil
}

// isHome reports whether these are the entries of a home, which always contains a lock file.
func isHome(names []string) bool {
	for _, name := range names {
		if name == lockName {
			return true
		}
	}
	return false
}

// closeSecrets removes the permissions of others from files with keys. The files were private when created, but
// somebody may have copied or changed them since.
func (d Dir) closeSecrets() error {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return fmt.Errorf("looking at the home directory: %w", err)
	}
	defer root.Close()
	for _, dir := range []string{".", "clusters", "plane", "plane/pki", "plane/encryption", "plane/audit", "backups"} {
		if dir != "." {
			if err := closeSecret(root, dir); err != nil {
				return err
			}
		}
		entries, err := fs.ReadDir(root.FS(), dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("looking for secrets in the home directory: %w", err)
		}
		for _, entry := range entries {
			if path := filepath.Join(dir, entry.Name()); holdsKeys(path) {
				if err := closeSecret(root, path); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// holdsKeys reports whether a file of the home may contain keys.
func holdsKeys(path string) bool {
	return filepath.Ext(path) == ".key" || filepath.Base(path) == "kubeconfig" || filepath.Ext(path) == ".kubeconfig" ||
		filepath.Dir(path) == "plane/encryption" || filepath.Dir(path) == "plane/audit"
}

func closeSecret(root *os.Root, path string) error {
	info, err := root.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at a secret: %w", err)
	}
	where := filepath.Join(root.Name(), path)
	if mode := info.Mode(); !mode.IsRegular() && !mode.IsDir() || owner(info) != os.Geteuid() {
		return fmt.Errorf("%s is not a file or directory of this user: look at who has put it there, and remove it", where)
	}
	if info.Mode().Perm()&open == 0 {
		return nil
	}
	if err := root.Chmod(path, info.Mode().Perm()&^open); err != nil {
		return fmt.Errorf("closing %s to others: %w", where, err)
	}
	return nil
}

// owner returns the user id of a file's owner.
func owner(info fs.FileInfo) int {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(stat.Uid)
}
