"""The grammar of the synthetic topic essays in English; see essay_grammar.py for how it is written down."""

ENGLISH = """
# holiday
opening > last summer my family went on a long trip together .
    | when the holidays began , we packed our bags and left early .
    | for months we had talked about going away , and one day we went .
more > the weather was kind to us for most of the time . | the food was simple , but it tasted wonderful .
    | in the evenings we sat together and talked until late .
closing > we came home tired but happy , and we still talk about it . | next year we want to go there again .
    | i still think of those days very often .
scene > last summer my family travelled to the {} , where {more} .
    | our trip took us to the {} last summer , where {more} .
    | we had always dreamed of the {} , and at last we were there : {more} .
  sea > the water was warm and clear | the waves sang all night
  mountain > the air was cold and fresh | the paths were steep and narrow
  island > palm trees stood along the beach | small boats rested in the harbour
  village > everybody greeted us with a smile | chickens ran across the road
  lake > the water was as smooth as glass | white birds swam between the reeds
people > my {} came with us , and {more} . | it was good that my {} was there , because {more} .
    | without my {} it would have been dull , for {more} .
  grandmother > she told us old stories | she knew the name of every flower
  brother > he made everybody laugh | he carried the heaviest bag
  uncle > he had been there as a boy | he always found the way
  cousin > she knew a hundred games | she was never tired
  aunt > she cooked for all of us | she woke us with a song
deed > every morning began with {} , and {more} . | we tried {} for the first time , and {more} .
    | what we liked best was {} , and {more} .
  swimming > soon nobody was afraid of deep water | we only stopped when our lips were blue
  hiking > our legs grew stronger day by day | we saw deer at the edge of the wood
  fishing > we threw back all that we caught | we learned to sit very still
  camping > we slept under a thousand stars | a fox came to look at us
  sailing > the wind carried us far away | our faces were red from the sun
thing > we were glad to have the {} , because {more} . | we never left without the {} , since {more} .
    | nothing was as useful as the {} , for {more} .
  camera > every sunset was worth a picture | we wanted to keep each moment
  map > it was easy to get lost | the signs were hard to read
  tent > the nights were cool and damp | the hotels were full
  umbrella > the clouds came without a warning | the sun was very strong
  lantern > it got dark early there | the way back had no lights
feeling > back at home i understood what {} means : {more} . | what remains of that time is {} : {more} .
    | those days taught me about {} : {more} .
  freedom > nobody has to hurry | the day belongs to you
  happiness > it hides in small things | it grows when you share it
  gratitude > nothing is to be taken for granted | a simple bed can be a gift
  peace > silence can be better than music | there is a place where nobody shouts
  curiosity > behind each hill there is another one | the world is larger than our street

# school
opening > this year a new chapter of my school life began .
    | school is not only a place where one learns to read and write .
    | when i think of my school , i remember one week above all .
more > of course not every day was easy . | some of my classmates still laugh about it .
    | the days passed faster than we wanted .
closing > when the bell rang for the last time , nobody wanted to leave . | one day i will miss all this .
    | i would not want to forget a single day of it .
scene > it all happened in the {} , where {more} . | of all the rooms of our school i love the {} , where {more} .
    | every afternoon we met in the {} , where {more} .
  library > one could hear the pages turn | the shelves reached up to the ceiling
  classroom > our drawings hung on every wall | the sun fell on the old desks
  laboratory > something always smoked or smelled | glass bottles stood in long rows
  playground > small children chased one another | an old oak gave us shade
  canteen > it smelled of soup and bread | we all talked at the same time
people > i owe much to the {} , because {more} . | nobody will forget the {} , for {more} .
    | one person helped us most , the {} : {more} .
  teacher > she never gave up on anyone | she explained things a third time with a smile
  headmaster > he knew each of us by name | he swept the yard himself
  librarian > she had the right book for everyone | she let us stay until dark
  caretaker > he could repair anything | he kept our lost gloves for us
  seatmate > we shared one desk for years | we whispered the answers to each other
deed > we worked hard at {} that week , and {more} . | at first i was bad at {} , but {more} .
    | my favourite subject was {} , and {more} .
  mathematics > the numbers began to make sense | each riddle led to the next one
  history > the old kings came alive | the past felt close to us
  spelling > the mistakes became fewer and fewer | long words no longer scared me
  chemistry > only one test tube broke | the colours changed like magic
  geography > i could soon draw every coast | the far countries got names
thing > for that i needed my {} , which {more} . | on my desk lay the {} , which {more} .
    | i was proud of my {} , which {more} .
  notebook > was full from the first line to the last | had a coffee stain on its cover
  pencil > was by now as short as my thumb | had been sharpened a hundred times
  dictionary > was heavier than my lunch | knew more than all of us
  satchel > had belonged to my father | was always too full
  calculator > never grew tired | had lost two of its keys
feeling > in the end it was a lesson about {} : {more} . | whoever goes to school needs {} , for {more} .
    | what i really learned there was {} : {more} .
  diligence > a little every day is a lot in a year | talent alone is not enough
  honesty > a wrong answer is better than a copied one | a lie has to be remembered
  ambition > high aims make long legs | we can do more than we think
  fairness > everyone gets a turn | the loudest is not always right
  doubt > a good question opens a door | even a book can be wrong

# kitchen
opening > on sunday our whole house smells of cooking . | in our family everything important happens at the table .
    | cooking is harder than it looks , as i found out last week .
more > the clock on the wall said that it was nearly noon . | nobody was allowed to taste before the end .
    | from time to time somebody looked in and asked when we would eat .
closing > then we sat down , and for a while nobody said a word . | in the end not a crumb was left .
    | the dishes could wait until the next morning .
scene > that day we cooked in the {} , where {more} . | the best meals of my life were made in the {} , where {more} .
    | early in the morning i went into the {} , where {more} .
  cottage > the fire was already burning | herbs hung from the beams
  bakery > flour covered the floor like snow | it was warm even in winter
  restaurant > twelve guests had booked a table | the pans shone like gold
  cellar > jars stood in the dark | it smelled of apples
  barn > long tables had been put up | swallows flew in and out
people > the {} showed me how to do it , and {more} . | i was helped by the {} , and {more} .
    | the most important person was the {} , since {more} .
  chef > he tasted everything twice | he shouted but he was kind
  farmer > she had brought eggs and milk | she knew when fruit is ripe
  butcher > his knives were very sharp | he sang while he worked
  waiter > he could carry nine plates | he never wrote an order down
  innkeeper > he measured nothing with a scale | his recipes were a secret
deed > then came the {} , and {more} . | the hardest part was the {} , and {more} .
    | we spent an hour with the {} , and {more} .
  baking > the whole room became hot | we watched through the little window
  frying > hot fat jumped at our hands | it hissed like a snake
  chopping > even the onions could not stop us | the heap of green grew quickly
  stirring > our arms began to hurt | nothing was allowed to burn
  seasoning > a single grain too much would spoil it | we closed our eyes to taste
thing > everything depended on the {} , for {more} . | we used a lot of {} , because {more} .
    | the whole secret was the {} , for {more} .
  butter > it makes a cake soft | it was fresh from the dairy
  garlic > it chases every cold away | one smells it through three doors
  pepper > we like it hot | without it a stew is sad
  honey > it is the gold of the bees | it sweetens even bad news
  cheese > it had ripened for a year | the children love it melted
feeling > a good meal is made of {} : {more} . | what we tasted was more than food , it was {} : {more} .
    | since that day i know that cooking is {} : {more} .
  generosity > a full plate is for sharing | there is always room for one more chair
  memory > one bite brings back my childhood | a smell keeps the years
  comfort > a warm bowl heals a bad day | soup listens to every sorrow
  imagination > a recipe is only a beginning | leftovers can become a feast
  tradition > our mothers did the same | each hand passes it on

# sport
opening > sport was not my strength until that spring . | on saturday the great day had come at last .
    | whoever wants to win has to get up early .
more > the rain did not bother us at all . | our trainer stopped the time again and again .
    | my knees were shaking a little .
closing > we did not win a cup , but nobody was sad . | the next day i could hardly walk , and i smiled .
    | after that we all went home singing .
scene > we met at the {} at seven , and {more} . | the {} was full of people that day , and {more} .
    | from far away one could see the {} , and {more} .
  stadium > the flags were waving in the wind | thousands of voices filled the air
  gym > the floor had just been polished | the ropes hung from the roof
  pool > the water was colder than expected | eight lanes lay before us
  track > the white lines were freshly painted | the first runners were warming up
  rink > the ice shone like a mirror | our breath turned into clouds
people > beside me stood the {} , and {more} . | nobody worked as hard as the {} , and {more} .
    | i kept looking at the {} , for {more} .
  coach > he never raised his voice | his whistle could be heard everywhere
  captain > she believed in all of us | she gave her water away
  referee > nothing escaped her eyes | she had yellow cards in her pocket
  goalkeeper > his gloves were full of mud | he flew from post to post
  champion > she had lost many times before | she trained in snow and rain
deed > then the {} began , and {more} . | the {} was harder than i had thought , and {more} .
    | i had prepared for the {} all winter , and {more} .
  race > my heart was beating like a drum | the last lap seemed endless
  match > nobody scored for a long time | each ball was fought for
  relay > the stick almost fell to the ground | each of us gave everything
  marathon > the road went on and on | strangers handed us oranges
  jump > for a moment i could fly | the sand was soft and warm
thing > luckily i had my {} with me , because {more} . | the secret was my {} , since {more} .
    | i would never play without my {} , for {more} .
  sneakers > the ground was hard as stone | good shoes are half of the way
  bandage > my knee had hardly healed | safety comes first
  bottle > my throat was as dry as sand | one drinks more than one thinks
  towel > the sweat ran into my eyes | one can rest under it
  jersey > its number is my birthday | our colours are red and white
feeling > what counts is {} : {more} . | that day showed us what {} is : {more} .
    | you can lose a game and win {} : {more} .
  endurance > the last step is the one that matters | slow feet arrive as well
  teamwork > eleven friends beat eleven stars | one hand pulls the other
  discipline > nobody is born fast | the alarm rings at five
  respect > the loser deserves a hand too | without the others there is no game
  confidence > we have to see it before we do it | fear makes the legs heavy

# garden
opening > behind our house there is a piece of land . | in march the snow melted , and work could begin .
    | a garden needs time , and that spring we had it .
more > the people next door came by and gave advice . | now and then it rained , and that was good .
    | our hands were brown with earth .
closing > now we sit outside every evening and look at it . | in autumn we gave half of it away .
    | when winter came , we already made new plans .
scene > we started behind the {} , where {more} . | the sunniest corner was near the {} , where {more} .
    | a narrow path led to the {} , where {more} .
  fence > the soil was dark and rich | nothing but weeds had grown
  pond > frogs sang in the evening | dragonflies stood in the air
  greenhouse > it was warm and damp | the young plants waited in pots
  meadow > the grass reached to our knees | butterflies danced over the clover
  orchard > the old trees were in bloom | the ground was white with petals
people > the {} gave us a hand , and {more} . | the {} became our friend , and {more} .
    | every now and then the {} came by , and {more} .
  gardener > he spoke with the plants | he cut the roses first
  beekeeper > she brought us a jar | she wore a veil and moved slowly
  carpenter > he built a bench for us | his hammer was heard all day
  widow > she told us about her youth | she gave us seeds from her mother
  postman > he rested in the shade | he brought news and took some herbs
deed > for days the {} kept us busy , and {more} . | there is an art to {} , and {more} .
    | in the first week we did nothing but {} , and {more} .
  digging > our backs were sore at night | we found an old coin
  planting > each row was straight as a ruler | every seed got its own place
  watering > the cans were heavy | we did it before the sun rose
  weeding > it never came to an end | we talked a lot meanwhile
  harvesting > our baskets filled up quickly | the best ones we ate at once
thing > most of all we were proud of the {} , for {more} . | nobody had expected much of the {} , but {more} .
    | in june we saw the {} , and {more} .
  tomatoes > they were as red as fire | they tasted of summer
  sunflowers > they grew taller than my father | they turned their heads all day
  pumpkins > two men had to carry one | they glowed between the leaves
  strawberries > the birds loved them too | they were the sweetest of all
  lavender > the air smelled sweet | it hummed from morning to night
feeling > a garden teaches {} : {more} . | what really grew there was {} : {more} .
    | one cannot buy {} in a shop : {more} .
  patience > grass does not grow faster if you pull it | good things take their time
  hope > under the snow the bulbs are waiting | each seed is a promise
  humility > the weather does not ask us | the smallest worm does its share
  wonder > a seed knows what it will be | every leaf is different
  care > what is forgotten will dry up | love is a can of water

# music
opening > music has been part of my life since i was small . | last december our town had a concert to remember .
    | some evenings i hear a tune and everything comes back .
more > the hall became dark and quiet . | a string broke , but we went on .
    | my fingers were cold before the first note .
closing > when the last note was gone , nobody moved . | then the applause came like rain .
    | i walked home and the tune walked with me .
scene > we played in the {} , where {more} . | that evening the {} was full , and {more} .
    | people were waiting in front of the {} , and {more} .
  theatre > the curtain was as red as wine | velvet seats stood in rows
  church > a hundred candles were burning | the stones gave back each sound
  square > snow fell on the lamps | lights hung between the houses
  studio > the walls swallowed every noise | cables lay on the floor
  tavern > the glasses rang with us | the old ceiling was black with smoke
people > in the middle stood the {} , and {more} . | everyone was looking at the {} , and {more} .
    | i will never forget the {} , because {more} .
  conductor > his hands drew pictures | he closed his eyes for a moment
  singer > her voice reached the last row | she wore a long green dress
  composer > he sat in the last row | he had written it in one night
  dancer > she seemed to weigh nothing | her shoes hardly touched the ground
  drummer > he grinned all the time | he shook the whole floor
deed > hours of {} lay behind us , and {more} . | we had met for {} every tuesday , and {more} .
    | before that came weeks of {} , and {more} .
  rehearsing > now we knew each bar by heart | even the pauses were right
  practising > my fingertips had become hard | the neighbours were very kind
  listening > our ears had become sharp | we heard what others miss
  humming > the bus driver knew the melody too | i did it even in my sleep
  tuning > at last all of it fitted | nothing hurt the ear any more
thing > on the stage there was a {} , and {more} . | the sound of the {} was what moved me most , for {more} .
    | my grandparents had given me a {} , and {more} .
  piano > its keys were yellow with age | it sounded like water
  violin > it could weep and laugh | its wood was a hundred years old
  trumpet > it shone in the light | it woke everyone up
  flute > it was like a bird at dawn | it needs very little breath
  guitar > it travels everywhere with me | its strings were new
feeling > music is a language for {} : {more} . | i could not say it , but i felt {} : {more} .
    | what stayed with me was {} : {more} .
  longing > a song can be a road home | the far side of the river calls
  joy > even the feet of the old began to move | the heart jumps with the beat
  grief > tears need no words | a slow tune holds your hand
  harmony > many voices can be one | each tone leaves room for the next
  passion > who burns can light a fire | half a heart plays no song
"""
