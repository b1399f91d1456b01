@header@def main(who: str = "world") -> dict:
    # What is printed is only talk.
    print(f"greeting {who}")
    return {"greeting": f"Hello, {who}!"}
