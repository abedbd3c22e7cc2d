//go:build linux

package software

import "strings"

// program is a program in an image of test/images.
type program struct {
	name, image string
	port, uid   int
	// web is set if it answers GET.
	web bool
	// changes is set if it starts as root and becomes another user.
	changes bool
	// writes are the directories that it needs if it starts as its own user.
	writes []string
	use    func(c *cluster, pod string)
}

// advice is part of the termination message of a program that can't change its user.
const advice = "install newuidmap"

var programs = []program{
	{name: "nginx", image: "software.test/nginx:1", port: 8080, uid: 101, web: true, changes: true,
		writes: []string{"/run", "/var/lib/nginx"}, use: gets("hello from nginx")},
	{name: "postgresql", image: "software.test/postgresql:15", port: 5432, uid: 999, changes: true,
		writes: []string{"/var/lib/postgresql", "/tmp"}, use: queries},
	{name: "redis", image: "software.test/redis:7", port: 6379, uid: 999, changes: true,
		writes: []string{"/data"}, use: remembers},
	{name: "python", image: "software.test/python:3", port: 8080, uid: 1000, web: true, use: gets("nsswitch.conf")},
	{name: "node", image: "software.test/node:1", port: 8080, uid: 1000, web: true, use: gets("hello from node")},
}

// gets fetches the server's page through the API server.
func gets(want string) func(c *cluster, pod string) {
	return func(c *cluster, pod string) {
		c.Helper()
		got := c.kubectl("get", "--raw", "/api/v1/namespaces/default/pods/"+pod+":8080/proxy/")
		if !strings.Contains(got, want) {
			c.Errorf("the server answers %q, want %q", got, want)
		}
	}
}

// queries fills a table and adds up its numbers.
func queries(c *cluster, pod string) {
	c.Helper()
	got := c.kubectl("exec", pod, "--", "psql", "-h", "127.0.0.1", "-U", "postgres", "-At", "-q",
		"-c", "CREATE TABLE t AS SELECT generate_series(1, 1000) AS n", "-c", "SELECT sum(n) FROM t")
	if got != "500500" {
		c.Errorf("the sum of the numbers is %q, want 500500", got)
	}
	owner := c.kubectl("exec", pod, "--", "stat", "-c", "%u", "/var/lib/postgresql/data/PG_VERSION")
	if owner != "999" {
		c.Errorf("the database's files belong to user %q, want 999", owner)
	}
}

// remembers sets a key, saves it to disk and reads it.
func remembers(c *cluster, pod string) {
	c.Helper()
	for _, s := range []struct{ ask, want string }{{"SET k v", "OK"}, {"SAVE", "OK"}, {"GET k", "v"}} {
		args := append([]string{"exec", pod, "--", "redis-cli"}, strings.Fields(s.ask)...)
		if got := c.kubectl(args...); got != s.want {
			c.Errorf("%s: the server answers %q, want %q", s.ask, got, s.want)
		}
	}
}
