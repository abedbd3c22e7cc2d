// Package enrol tests how computers become hosts, with the agent's side, the plane's enrolment server, and a real API
// server with the plane's roles and admission policies.
package enrol
