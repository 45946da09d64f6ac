package contender

// mostPorts is how many ports the system gives to sockets that do not ask for
// a certain one, and a bit less.
const mostPorts = 20_000
