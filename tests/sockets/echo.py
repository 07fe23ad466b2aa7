import selectors, socket, sys, time
def server():
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("", 6000)); s.listen(); s.setblocking(False)
    sel = selectors.DefaultSelector(); sel.register(s, selectors.EVENT_READ)
    left = int(sys.argv[2]); done = 0
    while done < left:
        for key, _ in sel.select():
            if key.fileobj is s:
                c, who = s.accept(); c.setblocking(False); sel.register(c, selectors.EVENT_READ)
            else:
                data = key.fileobj.recv(65536)
                if data: key.fileobj.sendall(data)
                else: sel.unregister(key.fileobj); key.fileobj.close(); done += 1
    print("server done", done)
def client():
    time.sleep(0.001)
    c = socket.create_connection((sys.argv[2], 6000))
    t = time.monotonic()
    for i in range(20):
        c.sendall(b"x" * 1000)
        n = 0
        while n < 1000: n += len(c.recv(1000 - n))
    print(socket.gethostname(), "%.3f us" % ((time.monotonic() - t) * 1e6 / 20), c.getsockname(), c.getpeername())
    c.close()
{"server": server, "client": client}[sys.argv[1]]()
