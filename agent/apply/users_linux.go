package apply

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/internal/regular"
)

// Users creates users with their groups, passwords, sudo rules and keys. For a user that already exists, Users sets
// everything else without creating the user.
func (h *Host) Users(ctx context.Context, users []cloudconfig.User) error {
	for i, u := range users {
		if err := h.user(ctx, u); err != nil {
			return fault.New(err, "user %d of %d", i+1, len(users))
		}
	}
	return nil
}

func (h *Host) user(ctx context.Context, u cloudconfig.User) error {
	if err := h.groups(ctx, u); err != nil {
		return err
	}
	if _, err := user.Lookup(u.Name); err != nil {
		if err := h.Notes.Note(KeyUser, u.Name); err != nil {
			return err
		}
		if err := h.run(ctx, useradd(u)...); err != nil {
			return fault.New(err, "creating it")
		}
	}
	account, err := user.Lookup(u.Name)
	if err != nil {
		return fault.New(err, "it doesn't exist after it was created")
	}
	if u.HashedPassword != "" {
		// Pass it on stdin, because everybody can see arguments.
		set := command.Command{Args: []string{"chpasswd", "-e"}, Stdin: u.Name + ":" + u.HashedPassword + "\n", Output: h.Log}
		if err := set.Run(ctx); err != nil {
			return fault.New(err, "setting its password")
		}
	}
	if u.LockPassword {
		if err := h.run(ctx, "passwd", "-l", u.Name); err != nil {
			return fault.New(err, "locking its password")
		}
	}
	if len(u.Sudo) > 0 {
		if err := h.file("sudo "+u.Name, sudoers(u)); err != nil {
			return fault.New(err, "writing its rules for sudo")
		}
	}
	return h.home(account, u.SSHKeys)
}

// groups creates those of a user's groups that don't exist.
func (h *Host) groups(ctx context.Context, u cloudconfig.User) error {
	for _, group := range append([]string{u.PrimaryGroup}, u.Groups...) {
		if group == "" {
			continue
		}
		if _, err := user.LookupGroup(group); err == nil {
			continue
		}
		if err := h.Notes.Note(KeyGroup, group); err != nil {
			return err
		}
		if err := h.run(ctx, "groupadd", group); err != nil {
			return fault.New(err, "creating one of its groups")
		}
	}
	return nil
}

// useradd returns the command that creates a user without a home directory. The method home creates the directory,
// because useradd fails if it can't change the owner.
func useradd(u cloudconfig.User) []string {
	args := []string{"useradd", "--no-create-home", "--no-log-init"}
	add := func(option, value string) {
		if value != "" {
			args = append(args, option, value)
		}
	}
	add("--comment", u.Gecos)
	add("--gid", u.PrimaryGroup)
	add("--groups", strings.Join(u.Groups, ","))
	add("--home-dir", u.HomeDir)
	add("--inactive", u.Inactive)
	add("--shell", u.Shell)
	return append(args, u.Name)
}

// sudoers returns the file with a user's rules. Sudo ignores files whose names contain a dot.
func sudoers(u cloudconfig.User) cloudconfig.File {
	var rules strings.Builder
	for _, rule := range u.Sudo {
		rules.WriteString(u.Name + " " + strings.TrimSpace(rule) + "\n")
	}
	name := "90-capstan-" + strings.ReplaceAll(u.Name, ".", "_")
	return cloudconfig.File{Path: "/etc/sudoers.d/" + name, Content: []byte(rules.String()), Mode: 0o440}
}

// home creates a user's home directory, with the keys that may log in.
func (h *Host) home(account *user.User, keys []string) error {
	uid, err1 := strconv.Atoi(account.Uid)
	gid, err2 := strconv.Atoi(account.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if account.HomeDir == "" || account.HomeDir == "/" || account.HomeDir == "/nonexistent" {
		if len(keys) > 0 {
			return fault.New(nil, "it has no home for its keys")
		}
		return nil
	}
	if _, err := os.Stat(account.HomeDir); errors.Is(err, fs.ErrNotExist) {
		if err := h.Undo.MakeDir(account.HomeDir); err != nil {
			return fault.New(err, "making its home")
		}
		if err := errors.Join(h.chown(account.HomeDir, uid, gid), os.Chmod(account.HomeDir, 0o750)); err != nil {
			return fault.New(err, "making its home")
		}
	}
	if len(keys) == 0 {
		return nil
	}
	dir := filepath.Join(account.HomeDir, ".ssh")
	path := filepath.Join(dir, "authorized_keys")
	for _, p := range []string{dir, path} {
		// The user may have put a link there, which root must not follow.
		if info, err := os.Lstat(p); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fault.New(nil, "its .ssh or authorized_keys is a link")
		}
	}
	old, err := regular.Read(path, 1<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(err, "reading its keys")
	}
	content := addLines(string(old), keys)
	err = h.Undo.MakeDir(dir)
	if err == nil {
		err = h.file("keys "+account.Username, cloudconfig.File{
			Path: path, Content: []byte(content), Owner: account.Uid, Group: account.Gid, Mode: 0o600,
		})
	}
	if err == nil {
		err = errors.Join(h.chown(dir, uid, gid), os.Chmod(dir, 0o700))
	}
	if err != nil {
		return fault.New(err, "writing its keys")
	}
	return nil
}

// addLines returns the text with the missing lines appended.
func addLines(text string, lines []string) string {
	have := strings.Split(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(have, line) {
			text += line + "\n"
			have = append(have, line)
		}
	}
	return text
}
